"""Errors of any request: texts, cursors, streams, amounts."""

from longtake.errors.base import LongtakeError


class InvalidText(LongtakeError):
    """A text is empty, too long, or has characters that do not belong in one."""

    code = "TEXT_INVALID"


class InvalidCursor(LongtakeError):
    """Where to go on is not something that a list or a stream has given."""

    code = "CURSOR_INVALID"
    default_hint = "Send `next` of the page before as it is, or leave `before` out to start from the first page."


class TooManyStreams(LongtakeError):
    """As many streams of events are open as one user, or this server, may have."""

    code = "STREAMS_TOO_MANY"
    default_hint = "Close streams that are not in use; one stream brings all events of a user."


class CreditsError(LongtakeError):
    """Something asked of the ledger cannot be done. Nothing was written."""

    code = "CREDITS_ERROR"


class InvalidAmount(CreditsError):
    """The amount is not a whole number of credits, or is out of bounds."""

    code = "AMOUNT_INVALID"


class InsufficientCredits(CreditsError):
    """There are fewer credits than this costs; `balance` and `price` say how many."""

    code = "INSUFFICIENT_CREDITS"
    default_hint = "Ask an administrator for credits, or wait until tasks under way give back what they hold."
