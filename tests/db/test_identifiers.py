"""Ids are UUIDv7: what was made later sorts later."""

from __future__ import annotations

import time
import uuid
from typing import TYPE_CHECKING

from sqlalchemy import text

from longtake import Engine, JobKind, open_database
from longtake.clock import new_id
from longtake.db.schema import SQLITE_NEW_ID
from longtake.engine.queries import JobFilter, list_jobs
from tests.db.applications import application, declare_kinds
from tests.engine.stage import done, enqueue
from tests.wait import wait_for

if TYPE_CHECKING:
    from longtake import Database, Transaction


def test_ids_are_version_7_uuids() -> None:
    one = uuid.UUID(new_id())
    assert one.version == 7
    assert one.variant == uuid.RFC_4122


def test_ids_made_one_after_another_keep_their_order() -> None:
    ids = [new_id() for _ in range(20_000)]
    assert ids == sorted(ids)
    assert len(set(ids)) == len(ids)


def test_the_time_is_inside() -> None:
    before = time.time_ns() // 1_000_000
    milliseconds = uuid.UUID(new_id()).int >> 80
    assert before <= milliseconds <= time.time_ns() // 1_000_000


def next_millisecond() -> None:
    now = time.time_ns() // 1_000_000
    wait_for(lambda: time.time_ns() // 1_000_000 > now, "the next millisecond")


def test_ids_made_by_sql_sort_among_those_made_by_python(database: Database) -> None:
    """Rows that triggers and other programs write stand where they belong when a list is sorted by id."""
    expression = SQLITE_NEW_ID if database.dialect == "sqlite" else "longtake_new_id()"

    def make(tx: Transaction) -> str:
        return str(tx.execute(text(f"SELECT {expression}")).scalar_one())

    made = []
    for _ in range(20):
        made.append(new_id())
        next_millisecond()
        made.append(database.run_blocking(make))
        next_millisecond()
    assert made == sorted(made)
    assert {(one.version, one.variant) for one in map(uuid.UUID, made)} == {(7, uuid.RFC_4122)}
    assert len({one[15:] for one in made}) == len(made)


async def test_a_job_that_a_trigger_starts_is_listed_between_those_before_and_after_it(database_url: str) -> None:
    await declare_kinds(database_url)
    database = open_database(database_url)
    try:
        engine = Engine(database, [JobKind("assets.mirror", done)])
        earlier = enqueue(engine, "assets.mirror")
        next_millisecond()
        with application(database_url) as outside:
            outside.insert()
        next_millisecond()
        later = enqueue(engine, "assets.mirror")
        listed = [job["id"] for job in database.run_blocking(list_jobs, JobFilter())[0]]
    finally:
        database.close()
    assert (listed[0], listed[-1], len(listed)) == (later, earlier, 4)
