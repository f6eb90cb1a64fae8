"""PostgreSQL crashes and comes back: it gives some numbers of transactions again, and readers still hear of all."""

from __future__ import annotations

from typing import TYPE_CHECKING

import psycopg

from longtake import open_database
from longtake.engine.events import read_events
from longtake.services.live.event_log import current_place
from proofs.faults.servers import StoppableServer
from tests.engine.stage import until_readable
from tests.live.stage import Desk, told

if TYPE_CHECKING:
    from longtake import Database, Transaction

FEW, MANY = 30, 60


def nothing(_tx: Transaction) -> None:
    """Take a number, and write nothing."""


async def take_numbers(database: Database, number: int) -> None:
    for _ in range(number):
        await database.run(nothing)


async def test_what_happens_under_numbers_that_were_given_before_is_told() -> None:
    server = StoppableServer()
    # Else some of what nobody waits for would be on the disk before the crash.
    with psycopg.connect(server.admin_url(), autocommit=True) as administrator:
        administrator.execute("ALTER SYSTEM SET wal_writer_delay = '10s'")
        administrator.execute("SELECT pg_reload_conf()")
    database = open_database(server.new_database())
    try:
        desk = Desk(database)
        follower = await desk.follow()
        await told(database, "before")
        await desk.feed.round()
        await take_numbers(database, FEW)
        await desk.feed.round()
        place = await database.read(current_place)
        server.halt("immediate")
        server.start()
        await told(database, "after")
        await take_numbers(database, MANY)
        await desk.feed.round()
        await follower.until_subjects("before", "after")
        await until_readable(database)
        assert [event.subject for event in await database.read(read_events, place)] == ["after"]
        await follower.close()
    finally:
        database.close()
        server.stop()
