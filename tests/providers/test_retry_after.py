"""How long servers ask us to wait, in all the forms that were ever seen (F37)."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from zoneinfo import ZoneInfoNotFoundError

import pytest
from hypothesis import given
from hypothesis import strategies as st

from longtake.adapters.net.responses import LONGEST_RETRY_AFTER, retry_after_seconds
from longtake.adapters.providers import gemini
from longtake.adapters.providers.gemini import duration_seconds, seconds_to_pacific_midnight

NOW = datetime(2026, 3, 1, 12, 0, 0, tzinfo=UTC)


@pytest.mark.parametrize(
    ("header", "seconds"),
    [
        ("0", 0), ("7", 7), (" 120 ", 120), ("1.5", 1.5), ("3600", 3600), ("3601", 3600), ("9" * 18, 3600),
        ("Sun, 01 Mar 2026 12:00:30 GMT", 30), ("Sun, 01 Mar 2026 13:00:10 +0100", 10),
        ("Sunday, 01-Mar-26 12:00:05 GMT", 5), ("Sun, 01 Mar 2026 12:00:30 -0000", 30),
        ("Fri, 01 Mar 2126 12:00:00 GMT", 3600),
        ("Sun, 01 Mar 2026 11:59:59 GMT", None), ("Sun, 01 Mar 2026 12:00:00 GMT", None),
        (None, None), ("", None), ("-1", None), ("soon", None), ("nan", None), ("inf", None), ("1e9", None),
        ("9" * 500, None), ("٣", None), ("+5", None), ("5 s", None), ("0x10", None), ("1,5", None),
        ("Sun, 99 Mar 2026 99:99:99 GMT", None), ("Sun, 01 Mar 0000 12:00:00 GMT", None),
    ],
)  # fmt: skip
def test_retry_after_is_read_as_seconds_or_a_date(header: str | None, seconds: float | None) -> None:
    """F37: 429 with Retry-After."""
    assert retry_after_seconds(header, NOW) == seconds


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        ("38s", 38), ("38.5s", 38.5), ("0s", 0), ("0.000000001s", 1e-9), ("999999s", 3600),
        ("38", None), ("-3s", None), ("s", None), ("38m", None), ("infs", None), (38, None), (None, None), ({}, None),
    ],
)  # fmt: skip
def test_googles_durations_are_read(value: object, seconds: float | None) -> None:
    """F37: 429 with Retry-After."""
    assert duration_seconds(value) == seconds


@given(st.text())
def test_no_text_makes_us_wait_too_long_or_fail(text: str) -> None:
    for seconds in (retry_after_seconds(text, NOW), duration_seconds(text), duration_seconds(text + "s")):
        assert seconds is None or 0 <= seconds <= LONGEST_RETRY_AFTER


@pytest.mark.parametrize(
    ("now", "hours"),
    [
        (datetime(2026, 1, 10, 7, 59, tzinfo=UTC), 1 / 60),
        (datetime(2026, 1, 10, 8, 0, tzinfo=UTC), 24),
        (datetime(2026, 7, 10, 6, 0, tzinfo=UTC), 1),
        (datetime(2026, 3, 8, 8, 0, tzinfo=UTC), 23),  # the night in which the clocks go forward
        (datetime(2026, 11, 1, 7, 0, tzinfo=UTC), 25),  # and the one in which they go back
        (datetime(2026, 1, 10, 9, 0, tzinfo=timezone(timedelta(hours=2))), 1),
    ],
)
def test_a_day_of_google_ends_at_midnight_in_california(now: datetime, hours: float) -> None:
    assert seconds_to_pacific_midnight(now) == pytest.approx(hours * 3600)


def test_a_machine_without_time_zones_is_at_most_an_hour_late(monkeypatch: pytest.MonkeyPatch) -> None:
    def nothing(_name: str) -> None:
        raise ZoneInfoNotFoundError

    now = datetime(2026, 7, 10, 6, 0, tzinfo=UTC)
    exact = seconds_to_pacific_midnight(now)
    monkeypatch.setattr(gemini, "ZoneInfo", nothing)
    assert seconds_to_pacific_midnight(now) - exact == 3600
