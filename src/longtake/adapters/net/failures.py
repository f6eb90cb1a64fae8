"""Translation of aiohttp's errors into ours, which say whether the request was sent and reveal no secrets."""

from __future__ import annotations

import os

import aiohttp

from longtake.errors import (
    AnswerInvalid,
    AnswerTimedOut,
    AnswerTruncated,
    ConnectFailed,
    ConnectionLost,
    HostUnresolved,
    NetError,
)

#: What aiohttp raises for failed requests. Any other exception is a bug and stays as it is.
FAILURES = (aiohttp.ClientError, TimeoutError, OSError)


def translate(error: BaseException, shown: str, seconds: float, *, sent: bool) -> NetError:
    """Return our error for one of aiohttp's. Its own text is not used because it repeats whole URLs."""
    match error:
        case NetError():
            error.sent = error.sent or sent
            return error
        case aiohttp.ClientConnectorDNSError():
            return HostUnresolved(f"The name of {shown} cannot be resolved to an address.")
        case aiohttp.ClientConnectorCertificateError() | aiohttp.ClientConnectorSSLError():
            return ConnectFailed(f"{shown} has no valid TLS certificate.")
        case TimeoutError() if not sent:
            return ConnectFailed(f"No connection to {shown} within {seconds:g} s.")
        case TimeoutError():
            return AnswerTimedOut(f"{shown} did not answer completely within {seconds:g} s.", sent=True)
        case aiohttp.ClientConnectorError():
            return ConnectFailed(f"No connection to {shown}: {_reason(error.os_error)}.")
        case aiohttp.ClientPayloadError():
            return AnswerTruncated(f"The answer of {shown} ended too early.", sent=True)
        case aiohttp.ClientResponseError():
            return AnswerInvalid(f"{shown} answered something that is not HTTP.", sent=True)
        case _ if not sent:
            return ConnectFailed(f"No connection to {shown}.")
        case _:
            return ConnectionLost(f"The connection to {shown} ended before the answer.", sent=True)


def _reason(error: OSError) -> str:
    return os.strerror(error.errno).lower() if error.errno and error.errno > 0 else "it was refused or cut"
