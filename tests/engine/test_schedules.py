"""Schedules: a tick is one job, however many machines look at it."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest
from sqlalchemy import select

from longtake import Database, Done, Engine, JobKind, Schedule
from longtake.engine.errors import InvalidDefinition
from longtake.engine.schedules import fire_due, pause_schedule, run_schedule, schedule_is_due
from longtake.engine.tables import schedules
from longtake.errors import LongtakeError, NotFound
from tests.engine.stage import KIND, Stage, build, claim, done, finish, hire, live

if TYPE_CHECKING:
    from longtake import Transaction
    from tests.databases import StoppedClock

HOURLY = Schedule("hourly", KIND, {"look": "around"}, every=3600)


@pytest.fixture
def engine(stopped_database: Database) -> Engine:
    return build(stopped_database, schedules=[HOURLY])


def row(tx: Transaction, name: str = "hourly") -> Any:
    return tx.execute(select(schedules).where(schedules.c.name == name)).one()


def drain(engine: Engine) -> list[Any]:
    """Run all that is due to its end; return the arguments."""
    run = engine.database.run_blocking
    jobs = run(claim, engine, run(hire))
    for job in jobs:
        run(finish, engine, job, Done())
    return [job.args for job in jobs]


def test_every_so_often(engine: Engine, clock: StoppedClock) -> None:
    run = engine.database.run_blocking
    assert not run(schedule_is_due)
    assert run(fire_due, engine) == []
    clock.advance(3600)
    assert run(schedule_is_due)
    assert run(fire_due, engine) == ["hourly"]
    assert run(fire_due, engine) == []
    state = run(row)
    assert state.last_at == clock.now()
    assert state.next_at == clock.now() + timedelta(hours=1)
    job = run(live, state.last_job_id)
    assert (job.kind, job.args, job.key) == (KIND, {"look": "around"}, "schedule:hourly")
    assert drain(engine) == [{"look": "around"}]


def test_by_cron_in_utc(stopped_database: Database, clock: StoppedClock) -> None:
    engine = build(stopped_database, schedules=[Schedule("nightly", KIND, cron="30 3 * * *")])
    run = stopped_database.run_blocking
    assert run(row, "nightly").next_at == datetime(2026, 1, 2, 3, 30, tzinfo=UTC)
    clock.advance(15 * 3600 + 29 * 60 + 59)
    assert run(fire_due, engine) == []
    clock.advance(1)
    assert run(fire_due, engine) == ["nightly"]
    assert run(row, "nightly").next_at == datetime(2026, 1, 3, 3, 30, tzinfo=UTC)


def test_missed_ticks_are_not_made_up_for(engine: Engine, clock: StoppedClock) -> None:
    run = engine.database.run_blocking
    clock.advance(3600 * 24 * 7)
    assert run(fire_due, engine) == ["hourly"]
    assert run(fire_due, engine) == []
    assert run(row).next_at == clock.now() + timedelta(hours=1)
    assert len(drain(engine)) == 1


def test_a_slow_job_does_not_pile_up_behind_itself(engine: Engine, clock: StoppedClock) -> None:
    run = engine.database.run_blocking
    clock.advance(3600)
    run(fire_due, engine)
    [job] = run(claim, engine, run(hire))
    for _ in range(3):
        clock.advance(3600)
        assert run(fire_due, engine) == ["hourly"]
        assert run(row).last_job_id == job.id
    assert run(claim, engine, run(hire)) == []
    run(finish, engine, job, Done())
    clock.advance(3600)
    run(fire_due, engine)
    assert run(row).last_job_id != job.id


def test_a_paused_schedule_stays_silent_and_stays_paused(engine: Engine, clock: StoppedClock) -> None:
    run = engine.database.run_blocking

    def pause(tx: Transaction, paused: bool) -> None:
        pause_schedule(tx, "hourly", paused=paused)

    run(pause, True)
    clock.advance(7200)
    assert not run(schedule_is_due)
    assert run(fire_due, engine) == []
    build(engine.database, schedules=[HOURLY])
    assert run(row).paused
    run(pause, False)
    assert run(fire_due, engine) == ["hourly"]


def test_by_hand_besides_its_rhythm(engine: Engine, clock: StoppedClock) -> None:
    run = engine.database.run_blocking
    before = run(row).next_at
    clock.advance(10)
    job = run(run_schedule, engine, "hourly")
    assert job.created
    assert not run(run_schedule, engine, "hourly").created
    state = run(row)
    assert (state.next_at, state.last_at, state.last_job_id) == (before, clock.now(), job.id)
    with pytest.raises(NotFound, match="never"):
        run(run_schedule, engine, "never")
    with pytest.raises(NotFound, match="never"):
        run(lambda tx: pause_schedule(tx, "never", paused=True))


def test_declaring_again_changes_nothing_but_what_changed(engine: Engine, clock: StoppedClock) -> None:
    run = engine.database.run_blocking
    before = run(row).next_at
    clock.advance(1800)
    build(engine.database, schedules=[Schedule("hourly", KIND, {"look": "elsewhere"}, every=3600)])
    assert (run(row).next_at, run(row).args) == (before, {"look": "elsewhere"})
    build(engine.database, schedules=[Schedule("hourly", KIND, every=600)])
    assert (run(row).next_at, run(row).every_seconds) == (clock.now() + timedelta(minutes=10), 600)
    build(engine.database, schedules=[Schedule("hourly", KIND, cron="0 * * * *")])
    state = run(row)
    assert (state.next_at, state.every_seconds, state.cron) == (
        datetime(2026, 1, 1, 13, 0, tzinfo=UTC), None, "0 * * * *",
    )  # fmt: skip


def test_a_schedule_of_an_unknown_kind_is_left_for_one_that_knows_it(engine: Engine, clock: StoppedClock) -> None:
    run = engine.database.run_blocking
    older = build(engine.database, JobKind("older", done), schedules=[Schedule("old", "older", every=3600)])
    clock.advance(3600)
    assert run(fire_due, older) == ["old"]
    assert run(fire_due, engine) == ["hourly"]


async def test_two_machines_fire_each_tick_once(engine: Engine, clock: StoppedClock) -> None:
    others = [engine, *(Engine(engine.database, engine.kinds.values()) for _ in range(7))]
    for _ in range(3):
        clock.advance(3600)
        fired = await asyncio.gather(*(engine.database.run(fire_due, one) for one in others))
        assert sorted(fired) == [[], [], [], [], [], [], [], ["hourly"]]
        assert len(drain(engine)) == 1


async def test_workers_fire_schedules(database: Database) -> None:
    stage = Stage(database)
    stage.engine = Engine(database, [stage.kind], schedules=[Schedule("often", KIND, {"n": 1}, every=1)])
    await stage.start()
    async with stage.working(), stage.working():
        await stage.until(lambda: len(stage.settled) >= 1)
    assert stage.started[0].args == {"n": 1}


@pytest.mark.parametrize(
    "wrong",
    [
        {},
        {"every": 60, "cron": "* * * * *"},
        {"every": 0.5},
        {"cron": "99 * * * *"},
        {"cron": "* * * *"},
        {"every": 60, "name": ""},
        {"every": 60, "name": "x" * 101},
        {"every": 60, "args": {"large": "x" * 70_000}},
        {"every": 60, "args": {"file": object()}},
    ],
)
def test_a_schedule_that_cannot_work_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(LongtakeError) as raised:
        Schedule(**({"name": "any", "kind": KIND} | wrong))
    if "args" not in wrong:
        assert isinstance(raised.value, InvalidDefinition)
