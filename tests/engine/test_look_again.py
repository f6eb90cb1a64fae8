"""News about a job: it runs once more after them, whatever it is doing when they come."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from longtake import Retry, Snooze
from longtake.engine.control import look_again
from longtake.engine.outcomes import judge_crash
from tests.engine.stage import KIND, build, claim, enqueue, finish, hire

if TYPE_CHECKING:
    from longtake import Database, Outcome, Transaction
    from tests.databases import StoppedClock


def news(tx: Transaction) -> bool:
    return look_again(tx, KIND, "one", waiting=0.5, running=1.0)


def due(database: Database, clock: StoppedClock, worker: str, *waits: float) -> list[int]:
    """Let time pass, and return how many jobs were due after each wait."""
    engine = build(database)
    found = []
    for wait in waits:
        clock.advance(wait)
        found.append(len(database.run_blocking(claim, engine, worker)))
    return found


def test_a_waiting_job_is_due_soon(stopped_database: Database, clock: StoppedClock) -> None:
    engine = build(stopped_database)
    enqueue(engine, key="one", delay=60.0)
    assert stopped_database.run_blocking(news)
    assert not stopped_database.run_blocking(news), "it is due soon already"
    worker = stopped_database.run_blocking(hire)
    assert due(stopped_database, clock, worker, 0.4, 0.1) == [0, 1]


@pytest.mark.parametrize("outcome", [Snooze(60.0), Retry("SLOW", "later", after=60.0)])
def test_a_running_job_runs_once_more(stopped_database: Database, clock: StoppedClock, outcome: Outcome) -> None:
    engine = build(stopped_database)
    enqueue(engine, key="one")
    worker = stopped_database.run_blocking(hire)
    [job] = stopped_database.run_blocking(claim, engine, worker)
    assert stopped_database.run_blocking(news)
    clock.advance(0.5)
    assert not stopped_database.run_blocking(news), "one more run is enough for both"
    assert stopped_database.run_blocking(finish, engine, job, outcome)
    clock.advance(0.4)
    assert stopped_database.run_blocking(claim, engine, worker) == []
    clock.advance(0.1)
    [job] = stopped_database.run_blocking(claim, engine, worker)
    assert stopped_database.run_blocking(finish, engine, job, outcome)
    assert due(stopped_database, clock, worker, 59.0, 1.0) == [0, 1]


def test_a_job_that_returns_sooner_by_itself_is_not_delayed(stopped_database: Database, clock: StoppedClock) -> None:
    engine = build(stopped_database)
    enqueue(engine, key="one")
    worker = stopped_database.run_blocking(hire)
    [job] = stopped_database.run_blocking(claim, engine, worker)
    assert stopped_database.run_blocking(news)
    stopped_database.run_blocking(lambda tx: engine.finish(tx, [judge_crash(job, None)]))
    assert due(stopped_database, clock, worker, 0.0) == [1]


def test_news_about_nobody_change_nothing(stopped_database: Database) -> None:
    build(stopped_database)
    assert not stopped_database.run_blocking(news)
