"""Rescue: the jobs of dead workers go on elsewhere; one that kills its workers again and again is set apart."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from longtake import Database, Done, Engine, Fail, JobKind, Outcome, Retry, Settlement, Snooze
from longtake.engine.leases import find_workers, mark_alone, remove_dead_workers
from longtake.engine.maintenance import rescue
from longtake.engine.outcomes import judge_crash
from tests.engine.stage import (
    KIND,
    Stage,
    attempts,
    build,
    claim,
    done,
    ended,
    enqueue,
    event_types,
    execute,
    finish,
    hire,
    live,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from longtake import Job, Transaction


class Ground:
    """An engine whose settlements are kept, and workers that can be killed."""

    def __init__(self, database: Database, **policy: Any) -> None:
        self.settled: list[tuple[str, Outcome]] = []
        self.quarantined: list[str] = []
        kind = JobKind(KIND, done, self._settle, **policy)
        self.engine = build(database, kind, on_quarantine=self._quarantine)
        self.run = database.run_blocking

    def _settle(self, _tx: Transaction, _engine: Engine, settlements: Sequence[Settlement]) -> None:
        self.settled += [(one.job.id, one.outcome) for one in settlements]

    def _quarantine(self, _tx: Transaction, job: Job) -> None:
        self.quarantined.append(job.id)

    def claim(self) -> list[Job]:
        return self.run(claim, self.engine, self.run(hire))

    def kill_all(self) -> int:
        """Bury every worker and rescue what they had."""
        seen, _orphans = self.run(find_workers)
        self.run(remove_dead_workers, seen)
        return self.run(rescue, self.engine)

    def crash(self, job_id: str, *, alone: bool = False) -> None:
        jobs = {job.id: job for job in self.claim()}
        if alone:
            assert self.run(mark_alone, jobs[job_id])
        self.kill_all()


@pytest.fixture
def ground(stopped_database: Database) -> Ground:
    return Ground(stopped_database)


def test_a_dead_workers_job_is_due_at_once_with_an_attempt_and_a_crash_more(ground: Ground) -> None:
    job_id = enqueue(ground.engine)
    ground.crash(job_id)
    row = ground.run(live, job_id)
    assert (row.state, row.attempt, row.crashes, row.lease_token, row.worker) == ("ready", 1, 1, None, None)
    assert row.error["code"] == "CRASHED"
    [attempt] = ground.run(attempts, job_id)
    assert (attempt.attempt, attempt.outcome, attempt.error["code"]) == (1, "crashed", "CRASHED")
    assert attempt.worker is not None
    assert ground.run(event_types, job_id) == ["job.retrying"]
    [(_job, outcome)] = ground.settled
    assert isinstance(outcome, Retry)
    [job] = ground.claim()
    assert (job.attempt, job.crashes) == (2, 1)


def test_jobs_of_the_living_are_left_alone(ground: Ground) -> None:
    job_id = enqueue(ground.engine)
    [job] = ground.claim()
    assert ground.run(find_workers)[1] == 0
    assert ground.run(rescue, ground.engine) == 0
    assert ground.run(live, job_id).lease_token == job.lease_token


def test_a_running_job_without_any_worker_is_an_orphan_and_rescued(ground: Ground) -> None:
    job_id = enqueue(ground.engine)
    ground.claim()
    ground.run(execute, "DELETE FROM workers")
    assert ground.run(find_workers) == ([], 1)
    assert ground.run(rescue, ground.engine) == 1
    assert ground.run(live, job_id).crashes == 1


def test_the_third_crash_alone_is_the_end(ground: Ground) -> None:
    job_id = enqueue(ground.engine)
    ground.crash(job_id)
    ground.crash(job_id)
    assert ground.run(live, job_id).crashes == 2
    ground.crash(job_id, alone=True)
    row = ground.run(ended, job_id)
    assert (row.state, row.error["code"]) == ("failed", "CRASHED")
    assert [one.outcome for one in ground.run(attempts, job_id)] == ["crashed"] * 3
    assert sorted(ground.run(event_types, job_id)) == sorted(
        ["job.retrying", "job.retrying", "job.failed", "job.quarantined"]
    )
    assert ground.quarantined == [job_id]
    assert isinstance(ground.settled[-1][1], Fail)


def test_a_suspect_that_was_not_alone_is_not_blamed(ground: Ground) -> None:
    """It had to wait for its turn to run alone; whoever killed the worker, it was not this one."""
    job_id = enqueue(ground.engine)
    ground.crash(job_id)
    ground.crash(job_id)
    for _ in range(5):
        ground.crash(job_id)
        row = ground.run(live, job_id)
        assert (row.state, row.crashes, row.attempt, row.alone) == ("ready", 2, 2, False)
    assert len(ground.run(attempts, job_id)) == 2
    [job] = ground.claim()
    assert ground.run(finish, ground.engine, job, Done())


def test_a_snooze_beside_others_leaves_the_suspicion(ground: Ground) -> None:
    job_id = enqueue(ground.engine)
    ground.crash(job_id)
    ground.crash(job_id)
    [job] = ground.claim()
    assert ground.run(finish, ground.engine, job, Snooze(0))
    row = ground.run(live, job_id)
    assert (row.crashes, row.attempt, row.alone) == (2, 2, False)
    [job] = ground.claim()
    assert ground.run(mark_alone, job)
    ground.kill_all()
    assert ground.run(ended, job_id).error["code"] == "CRASHED"


def test_a_suspect_that_ran_alone_and_lived_is_none_any_more(ground: Ground) -> None:
    """Otherwise a suspect that waits for its provider would drain its worker at each look."""
    job_id = enqueue(ground.engine)
    ground.crash(job_id)
    ground.crash(job_id)
    [job] = ground.claim()
    assert ground.run(mark_alone, job)
    job.alone = True
    assert ground.run(finish, ground.engine, job, Snooze(0))
    row = ground.run(live, job_id)
    assert (row.crashes, row.attempt, row.alone) == (0, 2, False)


def test_progress_clears_the_suspicion(ground: Ground) -> None:
    job_id = enqueue(ground.engine)
    ground.crash(job_id)
    ground.crash(job_id)
    [job] = ground.claim()
    assert ground.run(mark_alone, job)
    assert ground.run(finish, ground.engine, job, Snooze(0, progress=True))
    row = ground.run(live, job_id)
    assert (row.crashes, row.attempt, row.alone) == (0, 0, False)
    for _ in range(2):
        ground.crash(job_id)
    assert ground.run(live, job_id) is not None


def test_a_crash_with_the_last_attempt_is_the_end(stopped_database: Database) -> None:
    ground = Ground(stopped_database, max_attempts=1)
    job_id = enqueue(ground.engine)
    ground.crash(job_id)
    assert ground.run(ended, job_id).error["code"] == "CRASHED"


def test_being_alone_is_forgotten_with_the_lease(ground: Ground) -> None:
    job_id = enqueue(ground.engine)
    [job] = ground.claim()
    assert ground.run(mark_alone, job)
    ground.kill_all()
    assert not ground.run(live, job_id).alone
    assert not ground.run(mark_alone, job)


def test_a_kind_that_is_unknown_here_goes_back_to_the_queue(ground: Ground) -> None:
    """An older version beside a newer one rescues its jobs too, and never ends them."""
    older = Engine(ground.engine.database)
    job_id = enqueue(ground.engine)
    for crashes in (1, 2):
        ground.claim()
        ground.run(execute, "DELETE FROM workers")
        assert ground.run(rescue, older) == 1
        assert ground.run(live, job_id).crashes == crashes
    [job] = ground.claim()
    ground.run(mark_alone, job)
    ground.run(execute, "DELETE FROM workers")
    assert ground.run(rescue, older) == 0
    assert ground.run(live, job_id).state == "running"
    assert ground.run(rescue, ground.engine) == 1
    assert ground.run(ended, job_id).error["code"] == "CRASHED"


def test_many_are_rescued_in_batches(ground: Ground) -> None:
    for _ in range(450):
        enqueue(ground.engine)
    assert len(ground.run(claim, ground.engine, ground.run(hire), 450)) == 450
    rescued = [ground.kill_all(), ground.kill_all(), ground.kill_all(), ground.kill_all()]
    assert sum(rescued) == 450
    assert rescued[-1] == 0


def test_a_rescued_job_that_nobody_began_costs_nothing() -> None:
    def job(**values: Any) -> Any:
        class Fields:
            id, lease_token, kind, max_attempts, attempt, crashes, alone = "j", "t", KIND, 5, 3, 2, False

        fields = Fields()
        for name, value in values.items():
            setattr(fields, name, value)
        return fields

    verdict = judge_crash(job(), "w")
    assert verdict.outcome is None
    assert verdict.change.attempt == 2  # type: ignore[union-attr]
    assert judge_crash(job(alone=True), "w").outcome is not None


async def test_one_job_that_cannot_be_settled_does_not_keep_the_others_from_rescue(database: Database) -> None:
    stage = Stage(database)

    def settle(_tx: Transaction, _engine: Engine, settlements: Sequence[Settlement]) -> None:
        if any(one.job.args == "bad" and isinstance(one.outcome, Retry) for one in settlements):
            raise LookupError("the domain refuses")

    stage.settle = settle
    await stage.start()
    bad = await stage.enqueue("bad")
    good = [await stage.enqueue() for _ in range(3)]
    dead = await database.run(hire)
    assert len(await database.run(claim, stage.engine, dead)) == 4
    await database.run(execute, "DELETE FROM workers")
    async with stage.working(lease_seconds=1.0, heartbeat_seconds=0.2):
        await stage.until(lambda: {job for job, outcome in stage.settled if isinstance(outcome, Done)} >= set(good))
    assert await database.read(ended, bad) is None
