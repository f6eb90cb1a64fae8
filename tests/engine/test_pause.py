"""Pausing lanes and kinds: nothing starts any more, what runs goes on, and declaring again changes nothing."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import pytest

from longtake import Database, Done, Engine, JobKind, Lane
from longtake.engine.control import pause_kind
from longtake.engine.lane_store import all_lanes, hold_lane, lane_view, pause_lane, resume_lane, set_lane
from longtake.errors import NotFound
from tests.engine.stage import KIND, Stage, build, claim, claim_lane, done, enqueue, finish, hire

if TYPE_CHECKING:
    from longtake import Transaction
    from tests.databases import StoppedClock

slow_lane = partial(hold_lane, slow=True)

LANES = [Lane("narrow", max_running=2)]


@pytest.fixture
def engine(stopped_database: Database) -> Engine:
    return build(stopped_database, JobKind(KIND, done), JobKind("other", done, lane="narrow"), lanes=LANES)


@pytest.fixture
def worker(engine: Engine) -> str:
    return engine.database.run_blocking(hire)


def pause_other(tx: Transaction, paused: bool) -> None:
    pause_kind(tx, "other", paused=paused)


def pause_sample(tx: Transaction, paused: bool) -> None:
    pause_kind(tx, KIND, paused=paused)


def test_a_paused_lane_starts_nothing_and_finishes_what_runs(engine: Engine, worker: str) -> None:
    run = engine.database.run_blocking
    enqueue(engine)
    [job] = run(claim, engine, worker)
    second = enqueue(engine)
    run(pause_lane, "default", "credential revoked")
    view = run(lane_view, "default")
    assert (view.paused, view.paused_reason) == (True, "credential revoked")
    assert run(claim, engine, worker) == []
    assert run(finish, engine, job, Done())
    run(resume_lane, "default")
    view = run(lane_view, "default")
    assert (view.paused, view.paused_reason) == (False, None)
    assert [job.id for job in run(claim, engine, worker)] == [second]


def test_a_paused_limited_lane_starts_nothing(engine: Engine, worker: str) -> None:
    run = engine.database.run_blocking
    job_id = enqueue(engine, "other")
    run(pause_lane, "narrow")
    assert run(claim_lane, engine, "narrow", worker) == []
    run(resume_lane, "narrow")
    assert [job.id for job in run(claim_lane, engine, "narrow", worker)] == [job_id]


def test_a_paused_kind_starts_nothing_in_any_lane(engine: Engine, worker: str) -> None:
    run = engine.database.run_blocking
    enqueue(engine, "other")
    enqueue(engine, "other", lane="default")
    free = enqueue(engine)
    run(pause_other, True)
    assert run(claim_lane, engine, "narrow", worker) == []
    assert [job.id for job in run(claim, engine, worker)] == [free]
    run(pause_other, False)
    assert len(run(claim_lane, engine, "narrow", worker)) == 1
    assert len(run(claim, engine, worker)) == 1


def test_other_lanes_and_kinds_go_on(engine: Engine, worker: str) -> None:
    run = engine.database.run_blocking
    job_id = enqueue(engine, "other")
    run(pause_lane, "default")
    run(pause_sample, True)
    assert [job.id for job in run(claim_lane, engine, "narrow", worker)] == [job_id]


def test_heads_say_that_something_is_paused(engine: Engine) -> None:
    run = engine.database.run_blocking
    enqueue(engine)
    enqueue(engine, "other")
    run(pause_lane, "default")
    run(pause_other, True)
    heads = run(engine.queue.heads)
    assert [(head.queue.kind, head.paused) for head in heads] == [(KIND, True), ("other", True)]


def test_what_operators_set_outlives_a_restart(engine: Engine, worker: str) -> None:
    run = engine.database.run_blocking
    run(pause_lane, "default", "by hand")
    run(pause_other, True)
    run(set_lane, Lane("narrow", max_running=7))
    again = build(engine.database, JobKind(KIND, done), JobKind("other", done, lane="narrow"), lanes=LANES)
    assert run(lane_view, "default").paused
    assert run(lane_view, "narrow").lane.max_running == 7
    enqueue(again, "other")
    assert run(claim_lane, again, "narrow", worker) == []


def test_resuming_forgets_a_servers_request_to_wait(engine: Engine, worker: str, clock: StoppedClock) -> None:
    run = engine.database.run_blocking
    job_id = enqueue(engine)
    run(slow_lane, "default", 3600)
    assert run(claim, engine, worker) == []
    run(resume_lane, "default")
    assert [job.id for job in run(claim, engine, worker)] == [job_id]


def test_what_is_not_there_is_refused_by_name(engine: Engine) -> None:
    run = engine.database.run_blocking

    def pause_unknown(tx: Transaction) -> None:
        pause_kind(tx, "nobody.knows", paused=True)

    for call in (lambda tx: pause_lane(tx, "nowhere"), lambda tx: resume_lane(tx, "nowhere")):
        with pytest.raises(NotFound, match="nowhere"):
            run(call)
    with pytest.raises(NotFound, match="nowhere"):
        run(lane_view, "nowhere")
    with pytest.raises(NotFound, match=r"nobody\.knows"):
        run(pause_unknown)


def test_lanes_are_listed_by_name(engine: Engine) -> None:
    engine.database.run_blocking(set_lane, Lane("a new one", rate=(5, 60.0), burst=2, spacing=0.5))
    views = engine.database.run_blocking(all_lanes)
    assert [view.lane.name for view in views] == ["a new one", "default", "narrow"]
    assert views[0].lane == Lane("a new one", rate=(5, 60.0), burst=2, spacing=0.5)


async def test_a_worker_goes_on_when_the_lane_is_resumed(database: Database) -> None:
    stage = Stage(database)
    await stage.start()
    await database.run(pause_lane, "default")
    job_id = await stage.enqueue()
    async with stage.working():
        # Another lane's job shows that the worker looks and leaves the paused one alone.
        await database.run(set_lane, Lane("open"))
        other = await stage.enqueue(lane="open")
        await stage.until(lambda: len(stage.settled) == 1)
        assert stage.settled[0][0] == other
        await database.run(resume_lane, "default")
        await stage.until(lambda: len(stage.settled) == 2)
    assert stage.settled[1][0] == job_id
