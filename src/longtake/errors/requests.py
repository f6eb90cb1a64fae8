"""Errors of any request: texts, cursors, streams, amounts."""

from longtake.errors.base import LongtakeError


class InvalidText(LongtakeError):
    """A text is empty, too long, or contains characters that are not allowed."""

    code = "TEXT_INVALID"


class InvalidCursor(LongtakeError):
    """The cursor does not come from a list or a stream."""

    code = "CURSOR_INVALID"
    default_hint = "Send `next` from the previous page unchanged, or leave out `before` to start at the first page."


class TooManyStreams(LongtakeError):
    """The user, or this server, already has the maximum number of event streams open."""

    code = "STREAMS_TOO_MANY"
    default_hint = "Close unused streams. One stream carries all events of a user."


class CreditsError(LongtakeError):
    """The ledger cannot do what was requested. Nothing was written."""

    code = "CREDITS_ERROR"


class InvalidAmount(CreditsError):
    """The amount is not a whole number of credits, or is out of range."""

    code = "AMOUNT_INVALID"


class InsufficientCredits(CreditsError):
    """The user has fewer credits than this costs; `balance` and `price` give both numbers."""

    code = "INSUFFICIENT_CREDITS"
    default_hint = "Ask an administrator for credits, or wait until tasks under way give back what they hold."
