"""Ranges of bytes as HTTP has them."""

from __future__ import annotations

import pytest

from longtake.http.file_responses import RangeNotSatisfiable, parse_range


@pytest.mark.parametrize(
    ("header", "expected"),
    [
        ("bytes=0-", (0, 100)), ("bytes=0-0", (0, 1)), ("bytes=10-19", (10, 20)), ("bytes=90-500", (90, 100)),
        ("bytes=-10", (90, 100)), ("bytes=-500", (0, 100)), ("BYTES=99-", (99, 100)), (" bytes=1-2 ", (1, 3)),
        (None, None), ("", None), ("bytes=", None), ("bytes=-", None), ("bytes=5-4", None), ("items=0-5", None),
        ("bytes=0-1,5-6", None), ("bytes=a-b", None), ("bytes=0x1-2", None), ("bytes=" + "9" * 30 + "-", None),
    ],
)  # fmt: skip
def test_one_range_is_understood_and_anything_else_is_the_whole_file(
    header: str | None, expected: tuple[int, int] | None
) -> None:
    assert parse_range(header, 100) == expected


@pytest.mark.parametrize("header", ["bytes=100-", "bytes=100-200", "bytes=-0", "bytes=999999-"])
def test_a_range_after_the_end_cannot_be_had(header: str) -> None:
    with pytest.raises(RangeNotSatisfiable):
        parse_range(header, 100)


def test_an_empty_file_has_no_ranges() -> None:
    with pytest.raises(RangeNotSatisfiable):
        parse_range("bytes=0-", 0)
