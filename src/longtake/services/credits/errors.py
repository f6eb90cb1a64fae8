"""Errors of the ledger."""

from longtake.errors import LongtakeError


class TooManyTasks(LongtakeError):
    """The user already has the maximum number of unfinished tasks."""

    code = "TASKS_TOO_MANY"
    http_status = 429
    default_hint = "GET /v1/tasks/pending lists them; cancel some or wait."


class CreditsError(LongtakeError):
    """The ledger cannot do what was requested. Nothing was written."""

    code = "CREDITS_ERROR"


class InvalidAmount(CreditsError):
    """The amount is not a whole number of credits, or is out of range."""

    code = "AMOUNT_INVALID"
    http_status = 422


class InsufficientCredits(CreditsError):
    """The user has fewer credits than this costs; `balance` and `price` give both numbers."""

    code = "INSUFFICIENT_CREDITS"
    http_status = 402
    default_hint = "Ask an administrator for credits, or wait until tasks under way give back what they hold."
