"""Permits for a call: the handler begins when it is claimed, reads, and waits for its lane right before it calls."""

from __future__ import annotations

import asyncio
import itertools
import random
from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from longtake import Cancelled, Database, Done, Fail, Lane, Outcome, Retry, Worker
from longtake.engine.control import request_cancel
from longtake.engine.drain import drain
from longtake.engine.executor import StopReason
from longtake.engine.lane_store import pause_lane, set_lane
from longtake.engine.leases import register_worker
from longtake.engine.queue import Claim
from tests.engine.lives import LeapingClock
from tests.engine.stage import Stage, add_effect, attempts, claim_lane, effects, ended, execute, live
from tests.engine.test_alone import make_suspect
from tests.wait import PATIENCE_SECONDS, until

if TYPE_CHECKING:
    from longtake import Job, Transaction
    from longtake.engine.executor import RunningJob
    from longtake.engine.outcomes import Verdict

FAR_SECONDS = 3600.0


@pytest.fixture
async def stage(database: Database) -> Stage:
    """Jobs that call in a lane of one in five seconds, by a clock that can leap."""
    made = Stage(database, lanes=[Lane("slow", spacing=5.0)], lane="slow", permit="call")
    made.engine.clock = LeapingClock()
    return made


async def claim(stage: Stage) -> tuple[Worker, list[Job]]:
    """Return a worker that does not run, and the one job, claimed in its name."""
    await stage.start()
    await stage.enqueue()
    worker, database = Worker(stage.engine), stage.database
    await database.run(register_worker, worker.id, "by hand", database.incarnation, 30.0)
    return worker, await claim_again(stage, worker)


async def claim_again(stage: Stage, worker: Worker) -> list[Job]:
    await stage.database.run(execute, "UPDATE lanes SET spaced_at = NULL")
    jobs = await stage.database.run(claim_lane, stage.engine, "slow", worker.id, 1)
    assert len(jobs) == 1
    return jobs


def take(worker: Worker, jobs: list[Job], starts_in: float, lifetime: float = 10.0, *, ago: float = 0.0) -> RunningJob:
    """Have the worker run what was claimed, with such a permit, so long ago."""
    now = worker.engine.clock.monotonic() - ago
    worker.executor.take(Claim(jobs, starts=[starts_in], lifetime=lifetime, counted_from=now), now)
    [one] = worker.executor.all()
    return one


async def begin(stage: Stage, starts_in: float, lifetime: float = 10.0) -> tuple[Worker, RunningJob]:
    """Return a worker that does not run, and the job that it has begun with such a permit."""
    worker, jobs = await claim(stage)
    return worker, take(worker, jobs, starts_in, lifetime)


async def conclude(worker: Worker, one: RunningJob) -> Verdict:
    assert one.task is not None
    async with asyncio.timeout(PATIENCE_SECONDS):
        await asyncio.wait([one.task])
    [verdict] = worker.completer.take()
    return verdict


def leap(stage: Stage, seconds: float) -> None:
    """Let time pass at once."""
    assert isinstance(stage.engine.clock, LeapingClock)
    stage.engine.clock.leap += seconds


def far_ahead(stage: Stage) -> None:
    """Have the engine give permits of which no test sees the time come."""
    claim_lane = stage.engine.claim_lane

    def far(tx: Transaction, *arguments: Any) -> Claim:
        found = claim_lane(tx, *arguments)
        return replace(found, starts=[FAR_SECONDS for _ in found.jobs])

    stage.engine.claim_lane = far  # type: ignore[method-assign,assignment]


async def waiting(worker: Worker) -> RunningJob:
    """Return the job that waits for its permit, once it does."""
    found = await until(lambda: [one for one in worker.executor.all() if one.waiting], "a job waits for its permit")
    assert isinstance(found, list)
    return found[0]  # type: ignore[no-any-return]


# -- the time of the call --------------------------------------------------------------------------------------------


async def test_it_begins_when_claimed_and_calls_at_the_time_of_its_permit(stage: Stage) -> None:
    clock, called = stage.engine.clock, []

    async def read_and_call(job: Job) -> Outcome:
        await job.permit()
        called.append(clock.monotonic())
        await job.permit()  # of no use a second time, and of no harm
        return Done()

    stage.handler = read_and_call
    before = clock.monotonic()
    worker, one = await begin(stage, 0.05)
    verdict = await conclude(worker, one)
    assert (len(stage.started), verdict.outcome) == (1, Done())
    assert called[0] >= before + 0.05


@pytest.mark.parametrize("options", [{"permit": "start"}, {"permit": "call", "lane": "default"}])
async def test_without_a_time_to_wait_for_the_call_is_made_at_once(database: Database, options: dict[str, Any]) -> None:
    """A handler that began with its permit has it; a lane without times needs none."""
    stage = Stage(database, **({"lanes": [Lane("slow", rate=(2, 0.1))], "lane": "slow"} | options))

    async def call(job: Job) -> Outcome:
        await job.permit()
        return Done()

    stage.handler = call
    await stage.start()
    ids = [await stage.enqueue() for _ in range(4)]
    async with stage.working():
        await stage.until(lambda: len(stage.settled) == 4)
    assert sorted(stage.settled) == sorted((job_id, Done()) for job_id in ids)
    assert len(stage.started) == 4


async def test_a_job_by_hand_has_no_lane_to_wait_for(stage: Stage) -> None:
    _worker, [job] = await claim(stage)
    await job.permit()


async def test_calls_of_several_workers_keep_the_limit_whatever_they_read_before(database: Database) -> None:
    count, period, jobs = 10, 0.3, 40
    stage = Stage(database, lanes=[Lane("fast", 8, rate=(count, period), burst=3)], lane="fast", permit="call")
    source, called = random.Random(7), []

    async def read_and_call(job: Job) -> Outcome:
        for _ in range(source.choice((0, 1, 20))):
            await database.read(live, job.id)
        await job.permit()
        called.append(stage.engine.clock.monotonic())
        return Done()

    stage.handler = read_and_call
    await stage.start()
    for _ in range(jobs):
        await stage.enqueue()
    async with stage.working(), stage.working():
        await stage.until(lambda: len(stage.settled) == jobs)
    assert len(called) == jobs
    called.sort()
    assert all(later - earlier >= period for earlier, later in zip(called, called[count:], strict=False))


# -- a permit that lapses --------------------------------------------------------------------------------------------


async def test_a_late_call_gives_the_job_back_before_anything_is_written(stage: Stage) -> None:
    async def read_too_long(job: Job) -> Outcome:
        leap(stage, 1.0)
        await job.permit()
        await job.progress(add_effect, job.id)
        return Retry("NOT_REACHED", "The call was made.")

    stage.handler = read_too_long
    worker, one = await begin(stage, 0.0, lifetime=0.2)
    verdict = await conclude(worker, one)
    assert await stage.database.run(stage.engine.finish, [verdict]) == {one.job.id}
    row = await stage.database.read(live, one.job.id)
    assert (row.state, row.attempt, row.crashes, row.snoozes, row.error) == ("ready", 0, 0, 0, None)
    assert await stage.database.read(effects) == []
    assert await stage.database.read(attempts, one.job.id) == []
    assert (len(worker.executor), stage.settled) == (0, [])


async def test_a_handler_that_catches_all_its_errors_does_not_catch_a_late_permit(stage: Stage) -> None:
    async def catch_everything(job: Job) -> Outcome:
        leap(stage, 1.0)
        try:
            async with asyncio.timeout(PATIENCE_SECONDS):
                await job.permit()
        except Exception:  # noqa: BLE001 - as in a handler that is careful
            return Fail("CAUGHT", "It was an error like any other.")
        return Done()

    stage.handler = catch_everything
    worker, one = await begin(stage, 0.0, lifetime=0.2)
    assert (await conclude(worker, one)).outcome is None


async def test_a_claim_that_is_answered_too_late_is_given_back_unread(stage: Stage) -> None:
    worker, jobs = await claim(stage)
    one = take(worker, jobs, 0.0, lifetime=0.2, ago=0.3)
    assert (await conclude(worker, one)).outcome is None
    assert stage.started == []


async def test_a_job_that_always_reads_for_longer_than_permits_live_is_called_all_the_same(database: Database) -> None:
    """Given back once, it keeps its place the second time and gets a permit for the moment at which it is ready."""
    stage = Stage(database, lanes=[Lane("slow", 1, rate=(20, 1.0))], lane="slow", permit="call")
    stage.engine.clock = LeapingClock()

    async def read_long(job: Job) -> Outcome:
        leap(stage, 1.0)
        await job.permit()
        return Done()

    stage.handler = read_long
    await stage.start()
    ids = [await stage.enqueue() for _ in range(3)]
    async with stage.working():
        await stage.until(lambda: len(stage.settled) == 3)
    # A leap may make another claim late as well, before its handler has begun.
    begun = Counter(job.id for job in stage.started)
    assert max(begun.values()) == 2
    for job_id in ids:
        assert (await database.read(ended, job_id)).crashes == 0
        assert [one.outcome for one in await database.read(attempts, job_id)] == ["done"]


async def test_in_a_paused_lane_no_permit_is_renewed(stage: Stage) -> None:
    async def read_too_long(job: Job) -> Outcome:
        leap(stage, 1.0)
        await job.permit()
        return Done()

    stage.handler = read_too_long
    worker, one = await begin(stage, 0.0, lifetime=0.2)
    await stage.database.run(stage.engine.finish, [await conclude(worker, one)])
    jobs = await claim_again(stage, worker)
    await stage.database.run(pause_lane, "slow")
    assert (await conclude(worker, take(worker, jobs, 0.0, lifetime=0.2))).outcome is None
    assert len(stage.started) == 2


# -- what ends the wait ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("permit", ["start", "call"])
async def test_a_cancel_ends_the_wait_at_once(database: Database, permit: str) -> None:
    stage = Stage(database, lanes=[Lane("slow", spacing=5.0)], lane="slow", permit=permit)
    far_ahead(stage)
    stage.handler = permit_and_end
    await stage.start()
    job_id = await stage.enqueue()
    async with stage.working(heartbeat_seconds=0.01) as worker:
        await waiting(worker)
        assert await database.run(request_cancel, stage.engine, job_id) == "requested"
        await stage.until(lambda: len(stage.settled) == 1)
    assert stage.settled == [(job_id, Cancelled())]


@pytest.mark.parametrize("permit", ["start", "call"])
async def test_a_stop_ends_the_wait_at_once(database: Database, permit: str) -> None:
    """With a grace this long, a job that waited on would hold the stop up."""
    stage = Stage(database, lanes=[Lane("slow", spacing=5.0)], lane="slow", permit=permit)
    far_ahead(stage)
    stage.handler = permit_and_end
    await stage.start()
    job_id = await stage.enqueue()
    async with stage.working(stop_grace_seconds=FAR_SECONDS) as worker:
        await waiting(worker)
    row = await database.read(live, job_id)
    assert (row.state, row.attempt, row.crashes, row.worker) == ("ready", 0, 0, None)
    assert stage.settled == []


async def test_a_job_that_still_reads_when_the_worker_stops_does_not_begin_to_wait(database: Database) -> None:
    stage = Stage(database, lanes=[Lane("slow", spacing=5.0)], lane="slow", permit="call")
    far_ahead(stage)
    gate = stage.gate()

    async def read_until_told(job: Job) -> Outcome:
        await gate.wait()
        await job.permit()
        return Done()

    stage.handler = read_until_told
    await stage.start()
    job_id = await stage.enqueue()
    async with stage.working(stop_grace_seconds=FAR_SECONDS) as worker:
        await stage.until(lambda: len(stage.started) == 1)
        worker.stop()
        gate.set()
    row = await database.read(live, job_id)
    assert (row.state, row.attempt, row.crashes, row.worker) == ("ready", 0, 0, None)


async def test_the_end_of_a_drain_ends_the_wait_at_once(database: Database) -> None:
    stage = Stage(database, lanes=[Lane("slow", spacing=5.0)], lane="slow", permit="call")
    far_ahead(stage)
    stage.handler = permit_and_end
    await stage.start()
    await stage.enqueue()

    async def nothing_more() -> bool:
        return False

    async with asyncio.timeout(PATIENCE_SECONDS):
        result = await drain(stage.engine, 1.0, lease_seconds=30.0, concurrency=5, has_more=nothing_more)
    assert (result.given_back, result.waiting, result.finished) == (1, 1, 0)


async def test_a_lost_job_waits_no_longer_and_writes_nothing(stage: Stage) -> None:
    stage.handler = permit_and_end
    worker, one = await begin(stage, FAR_SECONDS)
    await waiting(worker)
    worker.executor.lose(one)
    assert one.task is not None
    async with asyncio.timeout(PATIENCE_SECONDS):
        await asyncio.wait([one.task])
    assert worker.completer.take() == []


async def test_a_handler_that_ignored_its_stop_gets_no_permit_any_more(stage: Stage) -> None:
    gate = stage.gate()

    async def go_on_stubbornly(job: Job) -> Outcome:
        try:
            await gate.wait()
        except asyncio.CancelledError:
            await job.permit()
        return Done()

    stage.handler = go_on_stubbornly
    worker, one = await begin(stage, 0.0)
    await stage.until(lambda: len(stage.started) == 1)
    one.stop(StopReason.CANCELLED)
    assert (await conclude(worker, one)).outcome == Cancelled()


# -- the time limit --------------------------------------------------------------------------------------------------


async def test_the_time_limit_counts_from_the_permit(database: Database) -> None:
    """What is read before has a limit of the same length: a read that never ends is stopped as well."""
    stage = Stage(database, time_limit=60.0, permit="call", max_attempts=1)
    stage.engine.clock = LeapingClock()
    permitted, end = stage.gate(), stage.gate()

    async def read_and_call(job: Job) -> Outcome:
        if job.args == "call":
            await permitted.wait()
            await job.permit()
            called.append(job.id)
            stage.tell()
        await end.wait()
        return Done()

    called: list[str] = []
    stage.handler = read_and_call
    await stage.start()
    calls, reads = await stage.enqueue("call"), await stage.enqueue("read")
    async with stage.working():
        await stage.until(lambda: len(stage.started) == 2)
        leap(stage, 50.0)
        permitted.set()
        await stage.until(lambda: called == [calls])
        leap(stage, 50.0)
        await stage.until(lambda: len(stage.settled) == 1)
        assert stage.settled[0][0] == reads
        assert (await database.read(live, calls)).state == "running"
        leap(stage, 11.0)
        await stage.until(lambda: len(stage.settled) == 2)
    assert [outcome.code for _job, outcome in stage.settled if isinstance(outcome, Fail)] == ["TIME_LIMIT"] * 2


async def test_the_wait_for_a_permit_counts_towards_no_time_limit(stage: Stage) -> None:
    stage.handler = permit_and_end
    worker, one = await begin(stage, FAR_SECONDS)
    await waiting(worker)
    assert one.started_at is None
    leap(stage, FAR_SECONDS)
    one.permit_at = stage.engine.clock.monotonic()
    one.stop(StopReason.RELEASED)
    assert (await conclude(worker, one)).outcome is None


# -- alone -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("permit", ["start", "call"])
async def test_a_suspect_whose_permit_lapsed_while_others_ended_gets_another(database: Database, permit: str) -> None:
    lanes = [Lane("slow", rate=(20, 1.0)), Lane("beside", 1)]
    stage = Stage(database, lanes=lanes, lane="slow", permit=permit)
    stage.engine.clock = LeapingClock()
    gate, alone = stage.gate(), []

    async def call(job: Job) -> Outcome:
        if job.lane == "beside":
            await gate.wait()
            return Done()
        await job.permit()
        alone.append((await database.read(live, job.id)).alone)
        return Done()

    stage.handler = call
    await stage.start()
    await stage.enqueue(lane="beside")
    async with stage.working() as worker:
        await stage.until(lambda: len(stage.started) == 1)
        suspect = await stage.enqueue(delay=3600)
        await make_suspect(stage, suspect)
        await database.run(execute, "UPDATE jobs SET due_at = longtake_now() WHERE crashes > 0")
        await until(lambda: len(worker.executor) == 2, "the suspect is claimed")
        leap(stage, 1.0)
        gate.set()
        await stage.until(lambda: len(stage.settled) == 2)
    assert [job.id for job in stage.started].count(suspect) == 1
    assert alone == [True]


async def permit_and_end(job: Job) -> Outcome:
    await job.permit()
    return Done()


# -- a call in another lane ------------------------------------------------------------------------------------------


async def test_a_call_in_another_lane_keeps_that_lanes_limit(database: Database) -> None:
    """The job's own lane says nothing about it, and the other lane's jobs wait their turn."""
    stage = Stage(database, lanes=[Lane("other", spacing=0.2)])
    clock, called = stage.engine.clock, []

    async def call(job: Job) -> Outcome:
        assert await job.permit_of("other")
        called.append(clock.monotonic())
        return Done()

    stage.handler = call
    await stage.start()
    for _ in range(4):
        await stage.enqueue()
    async with stage.working():
        await stage.until(lambda: len(stage.settled) == 4)
    called.sort()
    assert all(later - earlier >= 0.2 for earlier, later in itertools.pairwise(called)), called


async def test_a_lane_without_times_or_by_hand_permits_a_call_at_once(stage: Stage) -> None:
    await stage.database.run(set_lane, Lane("other"))
    _worker, [job] = await claim(stage)
    assert await job.permit_of("other")
    worker, one = await begin(stage, 0.0)
    assert await worker.executor._permit_of(one.job, "other")


@pytest.mark.parametrize("change", ["UPDATE lanes SET paused = true", "DELETE FROM jobs"])
async def test_no_call_is_permitted_in_a_paused_lane_or_to_a_lost_job(stage: Stage, change: str) -> None:
    await stage.database.run(set_lane, Lane("other", spacing=0.01))
    worker, one = await begin(stage, 0.0)
    await stage.database.run(execute, change)
    assert not await worker.executor._permit_of(one.job, "other")
