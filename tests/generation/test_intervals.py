"""How often a provider is asked, and what the estimate says."""

from __future__ import annotations

import random
from statistics import mean

import pytest

from longtake.capabilities.generation.outlook import NONE_YET, Estimate, estimate
from longtake.capabilities.generation.tasks import next_poll


@pytest.mark.parametrize(("polls", "seconds"), [(0, 30), (9, 30), (10, 60), (29, 60), (30, 120), (500, 120)])
def test_polls_become_rarer_and_are_spread_evenly_around_their_interval(polls: int, seconds: int) -> None:
    source = random.Random(1)
    waits = [next_poll(polls, source) for _ in range(2_000)]
    assert seconds * 0.9 <= min(waits) < seconds * 0.91
    assert seconds * 1.09 < max(waits) <= seconds * 1.1
    assert mean(waits) == pytest.approx(seconds, rel=0.01)


def test_the_first_poll_comes_after_the_base_interval() -> None:
    assert 27 <= next_poll(0, random.Random(2)) <= 33


@pytest.mark.parametrize(
    ("seconds", "expected"),
    [
        ([], NONE_YET),
        ([7.0], Estimate(7.0, 7.0, 1)),
        ([3.0, 1.0, 2.0], Estimate(2.0, 3.0, 3)),
        ([float(number) for number in range(1, 101)], Estimate(50.0, 95.0, 100)),
    ],
)
def test_the_estimate_is_the_median_and_the_ninety_fifth_percentile(seconds: list[float], expected: Estimate) -> None:
    assert estimate(seconds) == expected
