"""The ground of the state machine: several workers and one rescuer, driven by hand while time stands still."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, precondition, rule
from sqlalchemy import select, text

from longtake import Cancelled, Database, Fail, Job, JobKind, JobRequest, Lane, Settlement, Steps, Transaction
from longtake.engine.engine import Engine
from longtake.engine.leases import Witness, beat, find_workers, remove_dead_workers
from longtake.engine.maintenance import rescue
from longtake.engine.tables import job_attempts, jobs, jobs_ended
from tests.engine.model import MAX_ATTEMPTS, NARROW_MOST, STEPS, TIMED_RATE, TIMED_SPACING, Model, ModelJob
from tests.engine.stage import add_effect, build, done, effects, hire

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from tests.databases import StoppedClock

LEASE = 30.0
KINDS = ("free", "narrow", "timed")
LANES = [
    Lane("narrow", max_running=NARROW_MOST),
    Lane("timed", rate=TIMED_RATE, burst=2, spacing=TIMED_SPACING),
]
TABLES = ("jobs", "jobs_ended", "job_attempts", "events", "workers", "effects")
CHOICE = st.integers(0, 1000)


def settle(tx: Transaction, _engine: Engine, settlements: Sequence[Settlement]) -> None:
    """Write one row for each outcome: a run's number, or 0 where the engine itself ended the job."""
    for one in settlements:
        if one.outcome.data is not None:
            add_effect(tx, one.job.id, one.outcome.data)
        elif isinstance(one.outcome, Fail | Cancelled):
            add_effect(tx, one.job.id, 0)


def clear(tx: Transaction) -> None:
    for table in TABLES:
        tx.execute(text(f"DELETE FROM {table}"))
    tx.execute(text("UPDATE lanes SET arrival_at = NULL, spaced_at = NULL"))


def everything(tx: Transaction) -> tuple[list[Any], list[Any], list[Any], list[tuple[str, int]], int]:
    """Return all that the invariants look at, as of one moment."""
    told = tx.execute(text("SELECT count(*) FROM events")).scalar_one()
    live, ended, attempts = (list(tx.execute(select(table))) for table in (jobs, jobs_ended, job_attempts))
    return live, ended, attempts, effects(tx), told


class WorkersAndTime(RuleBasedStateMachine):
    """Workers come and crash, time passes and jumps; ``old`` is every run there ever was."""

    def __init__(self, database: Database, clock: StoppedClock) -> None:
        super().__init__()
        self.run, self.clock, self.model = database.run_blocking, clock, Model()
        kinds = [
            JobKind(name, done, settle, lane="default" if name == "free" else name, max_attempts=MAX_ATTEMPTS,
                    back_off=Steps(STEPS))
            for name in KINDS
        ]  # fmt: skip
        self.engine = build(database, *kinds, lanes=LANES)
        self.run(clear)
        self.rescuer = self.run(hire, LEASE)
        self.witness = Witness(clock, LEASE, None)
        self.alive: dict[str, list[Job]] = {self.run(hire, LEASE): [] for _ in range(3)}
        self.crashed: set[str] = set()
        self.old: list[Job] = []
        self.seen: tuple[set[str], int, int] = (set(), 0, 0)
        # A full house to begin with, so that few steps lead to where limits and leases matter.
        requests = [JobRequest(kind) for kind in KINDS for _ in range(4)]
        for request, job in zip(requests, self.run(self.engine.enqueue_many, requests), strict=True):
            self.learn(job.id, request.kind)

    @property
    def now(self) -> datetime:
        return self.clock.now()

    def pick_live(self, choice: int) -> ModelJob:
        live = [job for job in self.model.jobs.values() if job.live]
        return live[choice % len(live)]

    def held(self) -> list[tuple[str, Job]]:
        return [(worker, job) for worker, executor in self.alive.items() for job in executor]

    def learn(self, job_id: str, kind: str, key: str | None = None, delay: float = 0.0) -> None:
        self.model.jobs[job_id] = ModelJob(job_id, kind, key, self.now + timedelta(seconds=delay))

    def take(self, worker: str, claimed: list[Job]) -> None:
        for job in claimed:
            self.model.jobs[job.id].claim(job.lease_token, worker)
            assert job.attempt == self.model.jobs[job.id].attempt
        self.alive[worker] += claimed
        self.old += claimed

    @precondition(lambda self: self.alive)
    @rule(choice=CHOICE)
    def crash(self, choice: int) -> None:
        """Forget everything; the row in the database stays until the others notice."""
        worker = list(self.alive)[choice % len(self.alive)]
        del self.alive[worker]
        self.crashed.add(worker)

    @precondition(lambda self: len(self.alive) < 3)
    @rule()
    def join(self) -> None:
        self.alive[self.run(hire, LEASE)] = []

    @rule(seconds=st.sampled_from([0.3, 1.1, 4.0, 12.0]))
    def advance(self, seconds: float) -> None:
        self.clock.advance(seconds)
        self.beat()

    @rule(seconds=st.sampled_from([3600.0, -3600.0]))
    def jump(self, seconds: float) -> None:
        """The clock is set. Forward, the lane's past lies behind by the database's time, which decides."""
        self.clock.jump(seconds)
        if seconds > 0:
            self.model.starts.clear()

    @rule()
    def beat(self) -> None:
        for worker in [self.rescuer, *self.alive]:
            pulse = self.run(beat, worker, LEASE)
            assert pulse.alive
            held = {job.id: job.token for job in self.model.jobs.values() if job.worker == worker}
            assert pulse.held == held

    @rule()
    def look(self) -> None:
        """Rescue whoever counts as dead: never one of the living, whatever the clock did."""
        seen, _orphans = self.run(find_workers)
        gone = set(self.run(remove_dead_workers, self.witness.dead(seen, self.rescuer)))
        assert gone <= self.crashed
        self.crashed -= gone
        while self.run(rescue, self.engine):
            pass
        workers = {self.rescuer, *self.alive, *self.crashed}
        for job in self.model.jobs.values():
            if job.state == "running" and job.worker not in workers:
                self.model.crash(job, self.now)

    @rule()
    def expire(self) -> None:
        """More than a lease's time without a beat of the crashed: they are all buried, and nobody else.

        Where the clock was set, a dead worker's lease may seem to have a lease and a half left: that passes first.
        """
        self.beat()
        self.look()
        for _ in range(6):
            self.advance(10.0)
            self.look()
        assert self.crashed == set()
