"""Of requests to other servers."""

from typing import Any

from longtake.errors.base import LongtakeError


class NetError(LongtakeError):
    """A request to another server failed. `sent` is False only if the server cannot have seen it."""

    code = "NET_ERROR"

    def __init__(self, message: str, hint: str | None = None, *, sent: bool = False, **facts: Any) -> None:
        super().__init__(message, hint, **facts)
        self.sent = sent


class AddressRefused(NetError):
    """The address is not on the public internet, or is written so that it could be taken for another."""

    code = "ADDRESS_REFUSED"
    default_hint = "LONGTAKE_ALLOW_ADDRESSES names private addresses that may be used, such as 127.0.0.1/32."


class HostUnresolved(NetError):
    """The host's name has no address now. Nothing was sent; trying again is right."""

    code = "HOST_UNRESOLVED"
    default_hint = "Check the name, and that this machine can resolve names."


class ConnectFailed(NetError):
    """No connection could be made. Nothing was sent; trying again is right."""

    code = "CONNECT_FAILED"


class AnswerTimedOut(NetError):
    """The server did not answer in time."""

    code = "ANSWER_TIMED_OUT"


class ConnectionLost(NetError):
    """The connection ended before the answer."""

    code = "CONNECTION_LOST"


class AnswerTooLarge(NetError):
    """The answer has more bytes than it may have, or unpacks to more."""

    code = "ANSWER_TOO_LARGE"


class AnswerTruncated(NetError):
    """The answer ended before it was whole."""

    code = "ANSWER_TRUNCATED"


class AnswerInvalid(NetError):
    """The answer is not what HTTP or JSON allows, or leads in circles."""

    code = "ANSWER_INVALID"
