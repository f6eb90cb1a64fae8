"""A worker in a process of its own, to be killed, frozen and lied to.

What its handlers did is written to a file outside the database, line by line, before and after each run. So a test
can compare what really ran with what the database says.
"""

from __future__ import annotations

import asyncio
import importlib
import os
import signal
import sys
import time
from dataclasses import replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from sqlalchemy import Column, Integer, MetaData, Table, Text, insert

import longtake.engine.maintenance
from longtake import Done, Engine, Fail, JobKind, JobRequest, Retry, Snooze, Steps, Worker, open_database
from longtake.clock import SystemClock
from longtake.db import postgresql_url
from longtake.db.postgresql import PostgresqlDatabase
from longtake.db.postgresql_session import SessionOptions
from longtake.server.process import StopSignal
from proofs.faults.holding import Evidence, Plan, held, hold_claims_taken

if TYPE_CHECKING:
    from collections.abc import Sequence

    from longtake import Database, Job, Outcome, Settlement, Transaction

#: One row for each job that ended well. A second one for the same job is an error.
effects = Table(
    "effects",
    MetaData(),
    Column("job_id", Text, primary_key=True),
    Column("attempt", Integer),
    Column("process", Integer),
)


class WrongClock(SystemClock):
    """The machine's clock, set wrong."""

    def __init__(self, offset: float) -> None:
        self._offset = timedelta(seconds=offset)

    def now(self) -> datetime:
        return super().now() + self._offset


class Behaviour:
    """The handler and settle of every kind: each job's arguments say what it does."""

    def __init__(self, plan: Plan, evidence: Evidence) -> None:
        self._folder = plan.folder
        self._evidence = evidence

    async def handle(self, job: Job) -> Outcome:
        facts = {"job": job.id, "kind": job.kind, "lane": job.lane, "attempt": job.attempt}
        self._evidence.write("start", **facts)
        try:
            outcome = await self._do(job, **job.args)
        except asyncio.CancelledError:
            self._evidence.write("stopped", **facts)
            raise
        self._evidence.write("end", **facts, outcome=type(outcome).__name__)
        return outcome

    async def _do(
        self,
        job: Job,
        *,
        seconds: float = 0.0,
        block: float = 0.0,
        until: str | None = None,
        first_until: str | None = None,
        kill: bool = False,
        snoozes: int = 0,
        retries: int = 0,
        then: Sequence[dict[str, Any]] = (),
        **_labels: Any,
    ) -> Outcome:
        await asyncio.sleep(seconds)
        if (gate := first_until if job.attempt == 1 and first_until else until) is not None:
            await self._file_appears(gate)
        if block and job.attempt == 1:
            time.sleep(block)  # noqa: ASYNC251 - the fault: it blocks the event loop
        if kill:
            os.kill(os.getpid(), signal.SIGKILL)
        if job.snoozes < snoozes:
            return Snooze(0.05)
        if (done := (job.memo or {}).get("retries", 0)) < retries:
            return Retry("AGAIN", "as asked", memo={"retries": done + 1})
        return Done(then=[JobRequest(**request, subject=job.id) for request in then])

    async def _file_appears(self, name: str) -> None:
        while not (self._folder / name).exists():  # noqa: ASYNC110 - another process makes it
            await asyncio.sleep(0.02)

    def settle(self, tx: Transaction, _engine: Engine, settlements: Sequence[Settlement]) -> None:
        done = [one.job for one in settlements if isinstance(one.outcome, Done)]
        if done:
            tx.execute(
                insert(effects), [{"job_id": job.id, "attempt": job.attempt, "process": os.getpid()} for job in done]
            )
        for one in settlements:
            if isinstance(one.outcome, Fail):
                self._evidence.write("failed", job=one.job.id, code=one.outcome.code)


def build_engine(plan: Plan, evidence: Evidence) -> Engine:
    """Return an engine as the plan wants it, with its fault built in."""
    behaviour = Behaviour(plan, evidence)
    clock = WrongClock(plan.clock_offset)
    database = _open(plan, clock)
    settle = held(behaviour.settle, plan, evidence) if plan.hold == "settle" else behaviour.settle
    lane_of = {lane.name: lane.name for lane in plan.lanes}
    kinds = [
        JobKind(
            name,
            behaviour.handle,
            settle,
            lane=lane_of.get(name, "default"),
            time_limit=plan.time_limit,
            back_off=Steps([0.05]),
            max_attempts=50,
        )
        for name in plan.kinds
    ]
    engine = Engine(database, kinds, plan.lanes, clock=clock)
    if plan.hold == "take":
        hold_claims_taken(plan, evidence)
    if plan.hold == "claim":
        engine.queue.claim = held(engine.queue.claim, plan, evidence)  # type: ignore[method-assign]
    if plan.hold == "rescue":
        rescue = longtake.engine.maintenance.rescue
        longtake.engine.maintenance.rescue = held(rescue, plan, evidence)
    return engine


def _open(plan: Plan, clock: SystemClock) -> Database:
    for module, name, value in plan.constants:
        setattr(importlib.import_module(module), name, value)
    if plan.session:
        return PostgresqlDatabase(replace(SessionOptions(postgresql_url(plan.url)), **dict(plan.session)))  # type: ignore[arg-type]
    return open_database(plan.url, clock=clock)


async def work(plan: Plan) -> None:
    """Work until SIGTERM; a second one kills."""
    evidence = Evidence(plan.folder)
    engine = build_engine(plan, evidence)
    worker = Worker(
        engine,
        concurrency=plan.concurrency,
        poll_seconds=plan.poll_seconds,
        lease_seconds=plan.lease_seconds,
        heartbeat_seconds=plan.heartbeat_seconds,
        stop_grace_seconds=plan.stop_grace_seconds,
    )

    async def stop_when_told(told: asyncio.Event) -> None:
        await told.wait()
        evidence.write("stopping")
        worker.stop()

    with StopSignal() as signalled:
        stopping = asyncio.create_task(stop_when_told(signalled.event))
        await engine.start()
        evidence.write("ready", worker=worker.id)
        await worker.run()
        await stopping
        engine.database.close()
        evidence.write("stopped in order")


def main(plan: Plan) -> None:
    """Be the child: its log goes to a file of its own."""
    log = os.open(plan.folder / f"log-{os.getpid()}", os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    for number in (1, 2):
        os.dup2(log, number)
    # Line by line, so that a kill loses none.
    sys.stdout = sys.stderr = os.fdopen(log, "w", buffering=1)
    asyncio.run(work(plan))
