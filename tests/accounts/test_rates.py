"""How often one user may ask."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from longtake.services.accounts.authenticator import RateLimits
from longtake.services.accounts.errors import RateLimited

if TYPE_CHECKING:
    from tests.databases import StoppedClock


def admitted(limits: RateLimits, user: str, tries: int) -> int:
    count = 0
    for _ in range(tries):
        try:
            limits.admit(user)
        except RateLimited:
            continue
        count += 1
    return count


def test_a_tenth_may_come_at_once_and_the_rest_evenly(clock: StoppedClock) -> None:
    limits = RateLimits(600, clock)
    assert admitted(limits, "alice", 100) == 60
    clock.advance(0.1)
    assert admitted(limits, "alice", 100) == 1
    clock.advance(60)
    assert admitted(limits, "alice", 100) == 60


def test_over_a_minute_no_more_than_the_rate_and_its_burst_is_admitted(clock: StoppedClock) -> None:
    limits = RateLimits(600, clock)
    count = 0
    for _ in range(6_000):
        count += admitted(limits, "alice", 1)
        clock.advance(0.01)
    assert 600 + 58 <= count <= 600 + 60


def test_one_user_does_not_use_up_anothers(clock: StoppedClock) -> None:
    limits = RateLimits(10, clock)
    assert admitted(limits, "alice", 5) == 1
    assert admitted(limits, "bob", 5) == 1


def test_the_refusal_says_when_to_come_back_and_that_is_true(clock: StoppedClock) -> None:
    limits = RateLimits(60, clock)
    assert admitted(limits, "alice", 6) == 6
    with pytest.raises(RateLimited) as refused:
        limits.admit("alice")
    wait = refused.value.facts["retry_after"]
    assert wait == 1.0
    clock.advance(wait - 0.01)
    assert admitted(limits, "alice", 1) == 0
    clock.advance(0.01)
    assert admitted(limits, "alice", 1) == 1


def test_what_is_refused_does_not_count(clock: StoppedClock) -> None:
    limits = RateLimits(60, clock)
    admitted(limits, "alice", 1_000)
    clock.advance(1)
    assert admitted(limits, "alice", 5) == 1


def test_the_wall_clock_does_not_matter(clock: StoppedClock) -> None:
    limits = RateLimits(60, clock)
    assert admitted(limits, "alice", 10) == 6
    clock.jump(3600)
    assert admitted(limits, "alice", 10) == 0


def test_only_so_many_users_are_remembered_and_the_busy_ones_are_kept(
    clock: StoppedClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("longtake.services.accounts.authenticator.MOST_USERS", 100)
    limits = RateLimits(600, clock)
    assert admitted(limits, "busy", 60) == 60
    for number in range(1_000):
        limits.admit(f"user-{number}")
        if number % 10 == 0:
            clock.advance(0.1)
            admitted(limits, "busy", 5)
    assert len(limits._spread_until) == 100
    assert admitted(limits, "busy", 5) == 0
