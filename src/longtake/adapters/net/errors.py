"""Errors of requests to other servers."""

from typing import Any

from longtake.errors import LongtakeError


class NetError(LongtakeError):
    """A request to another server failed. `sent` is False only if the server cannot have seen it."""

    code = "NET_ERROR"
    http_status = 502

    def __init__(self, message: str, hint: str | None = None, *, sent: bool = False, **facts: Any) -> None:
        super().__init__(message, hint, **facts)
        self.sent = sent


class AddressRefused(NetError):
    """The address is not on the public internet, or could be mistaken for another one as written."""

    code = "ADDRESS_REFUSED"
    http_status = 422
    default_hint = "Add private addresses that you allow to LONGTAKE_ALLOW_ADDRESSES, such as 127.0.0.1/32."


class HostUnresolved(NetError):
    """The host name does not resolve now. Nothing was sent, so you can try again."""

    code = "HOST_UNRESOLVED"
    default_hint = "Check the name, and that this machine can resolve names."


class ConnectFailed(NetError):
    """The connection failed. Nothing was sent, so you can try again."""

    code = "CONNECT_FAILED"


class AnswerTimedOut(NetError):
    """The server did not answer in time."""

    code = "ANSWER_TIMED_OUT"
    http_status = 504


class ConnectionLost(NetError):
    """The connection ended before the answer arrived."""

    code = "CONNECTION_LOST"


class AnswerTooLarge(NetError):
    """The answer exceeds its size limit, as sent or after decompression."""

    code = "ANSWER_TOO_LARGE"


class AnswerTruncated(NetError):
    """The answer ended before it was complete."""

    code = "ANSWER_TRUNCATED"


class AnswerInvalid(NetError):
    """The answer is not valid HTTP or JSON, or redirects too often."""

    code = "ANSWER_INVALID"
