"""Errors of event streams."""

from longtake.errors import LongtakeError


class TooManyStreams(LongtakeError):
    """The user, or this server, already has the maximum number of event streams open."""

    code = "STREAMS_TOO_MANY"
    http_status = 429
    default_hint = "Close unused streams. One stream carries all events of a user."
