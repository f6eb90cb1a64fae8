"""The times that servers ask us to wait, in all the formats they use."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta, timezone
from email.utils import parsedate_to_datetime
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

#: The longest wait that a server can ask for.
LONGEST_SECONDS = 3600.0
_NUMBER = re.compile(r"[0-9]{1,18}(?:\.[0-9]{1,9})?")
_PACIFIC = "America/Los_Angeles"


def header_seconds(value: str | None, now: datetime) -> float | None:
    """Return the seconds of a Retry-After header, a number or a date; None if it is past or invalid."""
    text = (value or "").strip()
    if _NUMBER.fullmatch(text):
        return min(float(text), LONGEST_SECONDS)
    try:
        moment = parsedate_to_datetime(text)
    except (ValueError, OverflowError):
        return None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    seconds = (moment - now).total_seconds()
    return min(seconds, LONGEST_SECONDS) if seconds > 0 else None


def duration_seconds(value: object) -> float | None:
    """Return the seconds of a duration such as `38s` or `38.5s`."""
    text = value.strip() if isinstance(value, str) else ""
    if not text.endswith("s") or not _NUMBER.fullmatch(text[:-1]):
        return None
    return min(float(text[:-1]), LONGEST_SECONDS)


def seconds_to_pacific_midnight(now: datetime) -> float:
    """Return the seconds until midnight on the American west coast, when Google renews quotas."""
    try:
        zone: ZoneInfo | timezone = ZoneInfo(_PACIFIC)
    except ZoneInfoNotFoundError:
        # Without time zone data winter time is used, which is at most an hour late.
        zone = timezone(timedelta(hours=-8))
    tomorrow = now.astimezone(zone).date() + timedelta(days=1)
    midnight = datetime(tomorrow.year, tomorrow.month, tomorrow.day, tzinfo=zone)
    return (midnight - now).total_seconds()
