"""Keys: unique among live jobs of a kind, free again after the end."""

from __future__ import annotations

import asyncio
import threading
from typing import TYPE_CHECKING

import pytest

from longtake import Cancelled, Database, Done, Engine, Fail, JobKind, JobRequest, Outcome, Retry, Snooze
from tests.engine.stage import KIND, build, claim, done, enqueue, finish, hire, live
from tests.wait import PATIENCE_SECONDS

if TYPE_CHECKING:
    from longtake import Enqueued, Transaction


@pytest.fixture
def engine(stopped_database: Database) -> Engine:
    return build(stopped_database, JobKind(KIND, done), JobKind("other", done))


def put(tx: Transaction, engine: Engine, key: str, kind: str = KIND) -> Enqueued:
    return engine.enqueue(tx, kind, {"asked": "again"}, key=key)


def test_the_same_key_is_the_same_job_while_it_lives(engine: Engine) -> None:
    run = engine.database.run_blocking
    first = run(put, engine, "film 7")
    assert first.created
    again = run(put, engine, "film 7")
    assert (again.id, again.created) == (first.id, False)
    [job] = run(claim, engine, run(hire))
    while_running = run(put, engine, "film 7")
    assert (while_running.id, while_running.created) == (job.id, False)


def test_another_key_or_another_kind_is_another_job(engine: Engine) -> None:
    run = engine.database.run_blocking
    ids = {run(put, engine, "a").id, run(put, engine, "b").id, run(put, engine, "a", "other").id, enqueue(engine)}
    assert len(ids) == 4


@pytest.mark.parametrize("outcome", [Done(), Fail("BROKEN", "for good"), Cancelled()])
def test_the_key_is_free_after_the_end(engine: Engine, outcome: Outcome) -> None:
    run = engine.database.run_blocking
    first = run(put, engine, "film 7")
    [job] = run(claim, engine, run(hire))
    assert run(finish, engine, job, outcome)
    second = run(put, engine, "film 7")
    assert second.created
    assert second.id != first.id


@pytest.mark.parametrize("outcome", [Snooze(60), Retry("LATER", "not now")])
def test_the_key_stays_taken_while_the_job_waits_again(engine: Engine, outcome: Outcome) -> None:
    run = engine.database.run_blocking
    first = run(put, engine, "film 7")
    [job] = run(claim, engine, run(hire))
    assert run(finish, engine, job, outcome)
    assert run(put, engine, "film 7").id == first.id


def test_one_batch_with_the_same_key_twice_is_one_job(engine: Engine) -> None:
    def write(tx: Transaction) -> list[Enqueued]:
        requests = [
            JobRequest(KIND, key="a"),
            JobRequest(KIND),
            JobRequest(KIND, key="a"),
            JobRequest("other", key="a"),
        ]
        return engine.enqueue_many(tx, requests)

    first, plain, twin, other = engine.database.run_blocking(write)
    assert [one.created for one in (first, plain, twin, other)] == [True, True, False, True]
    assert twin.id == first.id
    assert len({first.id, plain.id, other.id}) == 3


def test_a_batch_finds_the_jobs_that_are_there_already(engine: Engine) -> None:
    run = engine.database.run_blocking
    there = run(put, engine, "a")

    def write(tx: Transaction) -> list[Enqueued]:
        return engine.enqueue_many(tx, [JobRequest(KIND, key="b"), JobRequest(KIND, key="a")])

    new, old = run(write)
    assert new.created
    assert (old.id, old.created) == (there.id, False)


def test_a_follow_up_with_a_taken_key_is_not_a_second_job(engine: Engine) -> None:
    run = engine.database.run_blocking
    there = run(put, engine, "next", "other")
    enqueue(engine)
    [job] = [one for one in run(claim, engine, run(hire)) if one.kind == KIND]
    assert run(finish, engine, job, Done(then=[JobRequest("other", key="next")]))
    assert run(put, engine, "next", "other").id == there.id


async def test_64_with_one_key_at_once_are_one_job(engine: Engine) -> None:
    answers = await asyncio.gather(*(engine.database.run(put, engine, "film 7") for _ in range(64)))
    assert len({one.id for one in answers}) == 1
    assert [one.created for one in answers].count(True) == 1


async def test_a_twin_that_ends_while_we_look_leaves_room_for_ours(postgresql_url: str) -> None:
    """On PostgreSQL the live twin may end between our insert and our look."""
    from longtake import open_database

    database = open_database(postgresql_url)
    engine = build(database)
    first = await database.run(put, engine, "film 7")
    [job] = await database.run(claim, engine, await database.run(hire))
    inserted, ended = threading.Event(), threading.Event()
    insert = engine.queue.insert

    class Pausing:
        """The queue, with a pause after the first insert that found a twin."""

        def __getattr__(self, name: str) -> object:
            return getattr(queue, name)

        def insert(self, tx: Transaction, rows: list[object]) -> set[str]:
            answer = insert(tx, rows)  # type: ignore[arg-type]
            if not inserted.is_set():
                inserted.set()
                assert ended.wait(PATIENCE_SECONDS)
            return answer

    queue = engine.queue
    engine.queue = Pausing()  # type: ignore[assignment]
    ours = asyncio.create_task(database.run(put, engine, "film 7"))
    assert await asyncio.to_thread(inserted.wait, 20)
    engine.queue = queue
    await database.run(finish, engine, job, Done())
    ended.set()
    answer = await ours
    assert answer.created
    assert answer.id != first.id
    assert (await database.read(live, answer.id)).state == "ready"
    database.close()
