"""What can go wrong with a request, in our words: how far it got, and nothing of its secrets."""

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

#: What aiohttp raises for requests that failed; anything else is a bug, and is not dressed up as a network's fault.
FAILURES = (aiohttp.ClientError, TimeoutError, OSError)


def translate(error: BaseException, shown: str, seconds: float, *, sent: bool) -> NetError:
    """Return our error for aiohttp's; its own text is not used, since it repeats whole URLs."""
    match error:
        case NetError():
            error.sent = error.sent or sent
            return error
        case aiohttp.ClientConnectorDNSError():
            return HostUnresolved(f"The name of {shown} cannot be resolved to an address.")
        case aiohttp.ClientConnectorCertificateError() | aiohttp.ClientConnectorSSLError():
            return ConnectFailed(f"{shown} does not prove who it is: its certificate or TLS is not valid.")
        case TimeoutError() if not sent:
            return ConnectFailed(f"No connection for {shown} could be had within {seconds:g} s.")
        case TimeoutError():
            return AnswerTimedOut(f"{shown} did not answer completely within {seconds:g} s.", sent=True)
        case aiohttp.ClientConnectorError():
            return ConnectFailed(f"No connection to {shown}: {_reason(error.os_error)}.")
        case aiohttp.ClientPayloadError():
            return AnswerTruncated(f"The answer of {shown} ended before it was whole.", sent=True)
        case aiohttp.ClientResponseError():
            return AnswerInvalid(f"{shown} answered something that is not HTTP.", sent=True)
        case _ if not sent:
            return ConnectFailed(f"No connection to {shown} could be made.")
        case _:
            return ConnectionLost(f"The connection to {shown} ended before the answer.", sent=True)


def _reason(error: OSError) -> str:
    return os.strerror(error.errno).lower() if error.errno and error.errno > 0 else "it was refused or cut"
