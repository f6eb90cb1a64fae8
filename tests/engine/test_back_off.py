"""When a failed job is tried again: by its kind's policy, by code, and as a server asks."""

from __future__ import annotations

import random
from datetime import timedelta
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from longtake import Database, Exponential, JobKind, Retry, Steps
from longtake.engine.errors import InvalidDefinition
from longtake.engine.outcomes import judge
from longtake.engine.queue import PutBack
from tests.engine.stage import KIND, build, claim, done, enqueue, finish, hire, live

if TYPE_CHECKING:
    from longtake import Job
    from tests.databases import StoppedClock


class Always(random.Random):
    """Randomness that a test decides: this part of the way from the lower to the upper bound."""

    def __init__(self, part: float) -> None:
        super().__init__()
        self.part = part

    def uniform(self, a: float, b: float) -> float:
        return a + (b - a) * self.part


@pytest.mark.parametrize(("attempt", "seconds"), [(1, 120), (2, 300), (3, 600), (4, 600), (1000, 600)])
def test_steps_are_taken_in_order_and_the_last_one_stays(attempt: int, seconds: float) -> None:
    kind = JobKind(KIND, done, back_off=Steps([120, 300, 600]))
    assert kind.retry_delay("ANY", attempt, random.Random(1)) == seconds


@pytest.mark.parametrize(("attempt", "seconds"), [(1, 2), (2, 4), (3, 8), (5, 32), (9, 512), (10, 600), (5000, 600)])
def test_exponential_doubles_up_to_its_most(attempt: int, seconds: float) -> None:
    policy = Exponential(2, 600)
    assert policy.delay(attempt, Always(1.0)) == seconds
    assert policy.delay(attempt, Always(0.0)) == seconds / 2


@given(st.integers(1, 10_000), st.floats(0.1, 100), st.floats(100, 100_000), st.integers())
def test_exponential_is_spread_by_up_to_half_and_never_overflows(
    attempt: int, first: float, most: float, seed: int
) -> None:
    delay = Exponential(first, most).delay(attempt, random.Random(seed))
    full = min(first * 2.0 ** min(attempt - 1, 32), most)
    assert full / 2 <= delay <= full


def test_a_code_has_a_policy_of_its_own() -> None:
    kind = JobKind(KIND, done, back_off=Steps([1]), back_off_by_code={"RATE_LIMITED": Steps([60, 90])})
    assert kind.retry_delay("RATE_LIMITED", 2, random.Random(1)) == 90
    assert kind.retry_delay("ANYTHING_ELSE", 2, random.Random(1)) == 1


@pytest.mark.parametrize(
    ("after", "seconds"), [(None, 7), (90.5, 90.5), (0, 0), (-3, 0), (1e9, 86_400), (float("inf"), 86_400)]
)
def test_what_a_server_asks_for_wins_and_is_capped(
    stopped_database: Database, clock: StoppedClock, after: float | None, seconds: float
) -> None:
    engine = build(stopped_database, JobKind(KIND, done, back_off=Steps([7])))
    job_id = enqueue(engine)
    run = stopped_database.run_blocking
    [job] = run(claim, engine, run(hire))
    run(finish, engine, job, Retry("RATE_LIMITED", "slowly", after=after))
    assert run(live, job_id).due_at == clock.now() + timedelta(seconds=seconds)


def test_the_engines_own_randomness_is_used(stopped_database: Database) -> None:
    engine = build(stopped_database, JobKind(KIND, done), random_source=Always(0.5))
    enqueue(engine)
    [job] = stopped_database.run_blocking(claim, engine, stopped_database.run_blocking(hire))
    verdict = judge(engine.kinds[KIND], job, Retry("A", "b"), "w", engine.random)
    assert isinstance(verdict.change, PutBack)
    assert verdict.change.delay == 1.5


async def not_ready(_job: Job) -> Retry:
    return Retry("A", "b")


def blocking(_job: Job) -> Retry:
    return Retry("A", "b")


class CallableObject:
    async def __call__(self, _job: Job) -> Retry:
        return Retry("A", "b")


def test_a_callable_object_may_be_a_handler() -> None:
    assert JobKind("a", CallableObject()).name == "a"
    assert JobKind("a", not_ready).max_attempts == 5


@pytest.mark.parametrize(
    ("wrong", "named"),
    [
        ({"name": ""}, "1 to 100"),
        ({"name": "x" * 101}, "1 to 100"),
        ({"handler": blocking}, "async"),
        ({"priority": 4}, "priority"),
        ({"time_limit": 0}, "time limit"),
        ({"max_attempts": 0}, "max_attempts"),
        ({"permit": "end"}, "permit"),
    ],
)
def test_a_kind_that_cannot_work_is_refused(wrong: dict[str, object], named: str) -> None:
    with pytest.raises(InvalidDefinition, match=named):
        JobKind(**({"name": "a", "handler": done} | wrong))  # type: ignore[arg-type]


@pytest.mark.parametrize("seconds", [[], [10, -1]])
def test_steps_that_cannot_work_are_refused(seconds: list[float]) -> None:
    with pytest.raises(InvalidDefinition, match="back-off"):
        Steps(seconds)
