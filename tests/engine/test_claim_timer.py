"""When a worker claims next: no wake-up is ever lost, and none is needed for what is due by time."""

from __future__ import annotations

import asyncio

import pytest

from longtake import JobKind
from longtake.engine.claimer import BUSY_JOBS, GATHER_BURST, GATHER_SECONDS, LINGER_SECONDS, ClaimTimer
from longtake.engine.queue import Claim, Head, QueueName
from tests.databases import StoppedClock
from tests.engine.stage import KIND, done
from tests.wait import PATIENCE_SECONDS

QUEUE = QueueName("default", KIND, 2)


@pytest.fixture
def timer(clock: StoppedClock) -> ClaimTimer:
    timer = ClaimTimer(clock, 1.0, {KIND: JobKind(KIND, done)})
    assert timer.begin_claim(10) == 10
    return timer


def next_claim_in(timer: ClaimTimer, clock: StoppedClock) -> float:
    """Return after how long the next claim would be made."""
    waited = 0.0
    while not timer.begin_claim(10):
        clock.advance(0.01)
        waited += 0.01
        assert waited < 100
    return waited


def test_while_one_pump_claims_the_other_need_not(timer: ClaimTimer) -> None:
    assert timer.begin_claim(10) == 0


def test_a_wake_up_during_a_claim_causes_another(timer: ClaimTimer) -> None:
    """The job may have been committed just after the claim looked."""
    timer.wake()
    timer.end_claim(Claim(heads=[]), 10)
    assert timer.begin_claim(10) == 10


def test_a_wake_up_before_the_claim_is_answered_by_it(timer: ClaimTimer, clock: StoppedClock) -> None:
    timer.end_claim(Claim(heads=[]), 10)
    timer.wake()
    assert timer.begin_claim(10) == 10
    timer.end_claim(Claim(heads=[]), 10)
    assert timer.begin_claim(10) == 0
    assert next_claim_in(timer, clock) == pytest.approx(1.0, abs=0.02)


def test_polling_is_the_truth(timer: ClaimTimer, clock: StoppedClock) -> None:
    timer.end_claim(Claim(heads=[]), 10)
    assert next_claim_in(timer, clock) == pytest.approx(1.0, abs=0.02)


@pytest.mark.parametrize(("due_in", "expected"), [(0.5, 0.5 + LINGER_SECONDS), (-3.0, LINGER_SECONDS), (600.0, 1.0)])
def test_what_is_due_by_time_is_claimed_then(
    timer: ClaimTimer, clock: StoppedClock, due_in: float, expected: float
) -> None:
    timer.end_claim(Claim(heads=[Head(QUEUE, due_in, False, False)]), 10)
    assert next_claim_in(timer, clock) == pytest.approx(expected, abs=0.02)


@pytest.mark.parametrize(("seconds", "expected"), [(0.0, 0.0), (0.5, 0.5 + LINGER_SECONDS), (600.0, 1.0)])
def test_what_is_put_back_for_a_moment_is_claimed_after_it(
    timer: ClaimTimer, clock: StoppedClock, seconds: float, expected: float
) -> None:
    timer.end_claim(Claim(heads=[]), 10)
    timer.expect(seconds)
    assert next_claim_in(timer, clock) == pytest.approx(expected, abs=0.02)


def test_a_queue_that_was_not_known_is_claimed_from_at_once(timer: ClaimTimer) -> None:
    other = QueueName("aside", KIND, 0)
    assert other not in timer.queues()
    timer.end_claim(Claim(heads=[Head(other, -1.0, False, False)]), 10)
    assert timer.begin_claim(10) == 10
    assert other in timer.queues()


@pytest.mark.parametrize(
    "head", [Head(QUEUE, -1.0, False, True), Head(QueueName("default", "no", 2), -1.0, False, False)]
)
def test_what_is_paused_or_not_ours_keeps_nobody_busy(timer: ClaimTimer, clock: StoppedClock, head: Head) -> None:
    timer.end_claim(Claim(heads=[head]), 10)
    assert next_claim_in(timer, clock) == pytest.approx(1.0, abs=0.02)


def test_a_limited_lane_is_left_to_its_own_pump(timer: ClaimTimer, clock: StoppedClock) -> None:
    queue = QueueName("narrow", KIND, 2)
    timer.end_claim(Claim(heads=[Head(queue, 5.0, True, False)]), 10)
    queues, due_at = timer.limited["narrow"]
    assert queues == [queue]
    assert due_at == pytest.approx(clock.monotonic() + 5.0)
    assert timer.limited_changed.is_set()
    assert next_claim_in(timer, clock) == pytest.approx(1.0, abs=0.02)


def test_a_claim_that_failed_is_put_off(timer: ClaimTimer, clock: StoppedClock) -> None:
    timer.put_off(10, 0.5)
    assert next_claim_in(timer, clock) == pytest.approx(0.5, abs=0.02)


async def test_something_to_commit_ends_the_wait(timer: ClaimTimer) -> None:
    waiting = asyncio.create_task(timer.until_something_to_do(has_room=False))
    await asyncio.sleep(0)
    timer.flush_within(0.0)
    await asyncio.wait_for(waiting, PATIENCE_SECONDS)
    timer.flushed()
    waiting = asyncio.create_task(timer.until_something_to_do(has_room=False))
    await asyncio.sleep(0)
    assert not waiting.done()
    timer.wake()
    await asyncio.wait_for(waiting, PATIENCE_SECONDS)


def exchanges(
    timer: ClaimTimer, clock: StoppedClock, number: int, pause: float, running: int = BUSY_JOBS
) -> list[float]:
    """Make exchanges, each so long after the one before; return for how long each was held back."""
    waits = []
    for _ in range(number):
        waits.append(timer.held_back(running))
        clock.advance(waits[-1])
        timer.begin_exchange()
        clock.advance(pause)
    return waits


def test_a_busy_worker_gathers_what_comes_between_two_exchanges(timer: ClaimTimer, clock: StoppedClock) -> None:
    exchanges(timer, clock, GATHER_BURST + 1, pause=0.0)
    assert exchanges(timer, clock, 50, pause=0.0) == pytest.approx([GATHER_SECONDS] * 50)
    # Also when it has settled jobs for hours: what it did before makes it wait no longer.
    _first, *others = exchanges(timer, clock, 50, pause=GATHER_SECONDS / 4)
    assert others == pytest.approx([GATHER_SECONDS * 3 / 4] * 49)


def test_single_jobs_that_come_and_go_are_not_held_back(timer: ClaimTimer, clock: StoppedClock) -> None:
    """Each is an exchange when it comes and one when it goes; two at once are soon made up for."""
    for _ in range(50):
        assert exchanges(timer, clock, 2, pause=0.001, running=10) == [0.0, 0.0]
        clock.advance(0.1)


def test_a_worker_with_little_to_do_or_with_a_backlog_is_not_held_back(timer: ClaimTimer, clock: StoppedClock) -> None:
    assert exchanges(timer, clock, 50, pause=0.0, running=BUSY_JOBS - 1) == [0.0] * 50
    assert timer.held_back(BUSY_JOBS) == pytest.approx(GATHER_SECONDS)
    timer.end_claim(Claim(jobs=[], heads=None), 0)
    timer.begin_claim(10)
    timer.end_claim(Claim(jobs=[object()] * 10), 10)  # type: ignore[list-item]
    assert timer.held_back(BUSY_JOBS) == 0.0
