"""Errors of cursors and idempotency keys."""

from longtake.errors import LongtakeError


class InvalidIdempotencyKey(LongtakeError):
    """The Idempotency-Key is not 1 to 255 visible ASCII characters."""

    code = "IDEMPOTENCY_KEY_INVALID"
    http_status = 422


class IdempotencyKeyReused(LongtakeError):
    """The same Idempotency-Key was used for a different request."""

    code = "IDEMPOTENCY_KEY_REUSED"
    http_status = 422
    default_hint = "Use a new key for each new request. Repeat a key only with the same request."


class IdempotencyKeyInUse(LongtakeError):
    """The first request with this Idempotency-Key has not finished."""

    code = "IDEMPOTENCY_KEY_IN_USE"
    http_status = 409
    default_hint = "Repeat the request in a second to get the first answer."


class InvalidCursor(LongtakeError):
    """The cursor does not come from a list or a stream."""

    code = "CURSOR_INVALID"
    http_status = 422
    default_hint = "Send `next` from the previous page unchanged, or leave out `before` to start at the first page."
