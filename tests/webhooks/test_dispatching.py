"""From the log of events to deliveries: each event once for each endpoint that wants it, whoever reads and dies."""

from __future__ import annotations

import asyncio
import threading
from typing import TYPE_CHECKING

import psycopg
import pytest

from longtake import Engine, open_database
from longtake.engine.events import TOPIC
from longtake.services.webhooks import dispatcher
from longtake.services.webhooks.dispatcher import Dispatcher, dispatch, has_news
from longtake.services.webhooks.endpoints import create_endpoint, delete_endpoint, families_of
from tests.engine.stage import execute, until_read, until_readable
from tests.webhooks.stage import TYPES, Stage, tell

if TYPE_CHECKING:
    from longtake import Database, Transaction


async def test_each_event_becomes_one_delivery_and_one_job_for_each_endpoint(stage: Stage) -> None:
    first, second = await stage.create(), await stage.create()
    await stage.tell("task.created", "task.completed")
    await stage.dispatcher.round()
    for endpoint in (first, second):
        assert await stage.types(endpoint["id"]) == ["task.created", "task.completed"]
    assert await stage.written() == (4, 4)
    await stage.dispatcher.round()
    assert await stage.written() == (4, 4)


async def test_an_endpoint_gets_what_its_filter_names(stage: Stage) -> None:
    exact, family, every = (
        await stage.create("task.completed"),
        await stage.create("task.*", "asset.stored"),
        await stage.create(),
    )
    await stage.tell("task.completed", "task.failed", "asset.stored", "asset.failed", "credits.changed")
    await stage.dispatcher.round()
    assert await stage.types(exact["id"]) == ["task.completed"]
    assert await stage.types(family["id"]) == ["task.completed", "task.failed", "asset.stored"]
    assert len(await stage.types(every["id"])) == 5


async def test_nobody_hears_of_others_nor_of_the_engine_nor_of_webhooks_themselves(stage: Stage) -> None:
    mine = await stage.create()
    await stage.tell("task.completed", user_id="bob")
    await stage.tell("webhook.disabled", "webhook.test", "job.done", "alert.raised")
    await stage.dispatcher.round()
    assert await stage.types(mine["id"]) == []
    assert not await stage.database.read(has_news)


async def test_the_first_endpoint_gets_nothing_of_the_past_and_all_that_follows(stage: Stage) -> None:
    await stage.tell("task.created", "task.running")
    await stage.dispatcher.round()
    await stage.tell("task.progress")
    mine = await stage.create()
    await stage.tell("task.completed")
    await stage.dispatcher.round()
    assert await stage.types(mine["id"]) == ["task.completed"]


async def test_a_later_endpoint_gets_nothing_of_the_past_that_was_not_read_yet(stage: Stage) -> None:
    first = await stage.create()
    await stage.tell("task.created")
    second = await stage.create()
    await stage.tell("task.completed")
    await stage.dispatcher.round()
    assert await stage.types(first["id"]) == ["task.created", "task.completed"]
    assert await stage.types(second["id"]) == ["task.completed"]


async def test_nothing_is_sent_of_the_time_in_which_an_endpoint_was_disabled(stage: Stage) -> None:
    mine, other = await stage.create(), await stage.create()
    await stage.webhooks.change("ann", mine["id"], {"enabled": False})
    await stage.tell("task.created")
    await stage.webhooks.change("ann", mine["id"], {"enabled": True})
    await stage.tell("task.completed")
    await stage.dispatcher.round()
    assert await stage.types(mine["id"]) == ["task.completed"]
    assert await stage.types(other["id"]) == ["task.created", "task.completed"]


async def test_while_nobody_has_an_endpoint_nothing_is_written(stage: Stage) -> None:
    await stage.tell("task.created")
    assert not await stage.database.read(has_news)
    assert not await stage.database.run(dispatch, stage.engine, families_of(TYPES))
    assert await stage.database.read(lambda tx: tx.sql("SELECT transaction_id, sequence FROM webhook_cursor")) == [
        (0, 0)
    ]


async def test_pages_follow_each_other_without_gap_or_overlap(stage: Stage) -> None:
    mine = await stage.create()
    await stage.tell(*(f"task.n_{letter}" for letter in "abcdefg"))
    while await stage.database.run(dispatch, stage.engine, families_of(TYPES), 3):
        pass
    assert await stage.types(mine["id"]) == [f"task.n_{letter}" for letter in "abcdefg"]


async def test_two_dispatchers_make_each_delivery_once(stage: Stage) -> None:
    mine = await stage.create()
    others = [Dispatcher(stage.database, stage.engine, TYPES) for _number in range(2)]

    async def write(writer: int) -> None:
        for number in range(20):
            await stage.tell(f"task.w{writer}_{number}".replace("0", "o"))

    async def read(dispatcher: Dispatcher, finished: asyncio.Event) -> None:
        while not finished.is_set():
            await dispatcher.round()

    finished = asyncio.Event()
    readers = [asyncio.create_task(read(one, finished)) for one in others]
    await asyncio.gather(*(write(writer) for writer in range(4)))
    finished.set()
    await asyncio.gather(*readers)
    await stage.dispatcher.round()
    types = await stage.types(mine["id"])
    assert len(types) == len(set(types)) == 80
    assert await stage.written() == (80, 80)


async def test_a_dispatcher_that_is_cancelled_at_any_moment_loses_and_repeats_nothing(stage: Stage) -> None:
    mine = await stage.create()
    for number in range(30):
        await stage.tell(f"task.n{'x' * number}")
        task = asyncio.create_task(Dispatcher(stage.database, stage.engine, TYPES).round())
        for _turn in range(number % 7):
            await asyncio.sleep(0)
        task.cancel()
        await asyncio.wait([task])
    await stage.dispatcher.round()
    types = await stage.types(mine["id"])
    assert types == [f"task.n{'x' * number}" for number in range(30)]


async def test_a_crash_between_deliveries_and_cursor_leaves_neither(stage: Stage) -> None:
    mine = await stage.create()
    await stage.tell("task.completed")

    def dispatch_and_die(tx: Transaction) -> None:
        assert not dispatch(tx, stage.engine, families_of(TYPES))
        raise LookupError

    with pytest.raises(LookupError):
        await stage.database.run(dispatch_and_die)
    assert await stage.written() == (0, 0)
    await stage.dispatcher.round()
    assert await stage.types(mine["id"]) == ["task.completed"]


async def test_an_event_that_is_read_again_makes_no_second_delivery(stage: Stage) -> None:
    """The cursor alone should do; the unique constraint holds even if somebody sets it back."""
    mine = await stage.create()
    await stage.tell("task.completed")
    await stage.dispatcher.round()
    await stage.database.run(execute, "UPDATE webhook_cursor SET transaction_id = 0, sequence = 0")
    await stage.dispatcher.round()
    assert await stage.types(mine["id"]) == ["task.completed"]
    assert await stage.written() == (1, 1)


async def test_a_cursor_whose_events_were_removed_goes_on_with_what_is_there(stage: Stage) -> None:
    mine = await stage.create()
    await stage.tell("task.created")
    await stage.dispatcher.round()
    await stage.tell("task.running")
    await stage.database.run(execute, "DELETE FROM events")
    await stage.tell("task.completed")
    await stage.dispatcher.round()
    assert await stage.types(mine["id"]) == ["task.created", "task.completed"]


async def test_a_deleted_endpoint_takes_its_deliveries_along_and_its_jobs_end(stage: Stage) -> None:
    mine = await stage.create()
    await stage.tell("task.completed")
    await stage.dispatcher.round()
    await stage.database.run(delete_endpoint, "ann", mine["id"])
    assert await stage.written() == (0, 1)
    await stage.try_once()
    assert await stage.written() == (0, 0)
    assert stage.receiver.received == []


async def test_events_that_commit_late_are_not_passed_by(postgresql_url: str) -> None:
    database = open_database(postgresql_url)
    told, commit = threading.Event(), threading.Event()

    def tell_and_wait(tx: Transaction) -> None:
        tell(tx, "task.late")
        told.set()
        assert commit.wait(20)

    async with Stage(database).open() as stage:
        mine = await stage.create()
        slow = asyncio.create_task(database.run(tell_and_wait))
        assert await asyncio.to_thread(told.wait, 20)
        await stage.tell("task.early", settled=False)
        await stage.dispatcher.round()
        assert await stage.types(mine["id"]) == []
        commit.set()
        await slow
        await until_readable(database)
        await stage.dispatcher.round()
        assert await stage.types(mine["id"]) == ["task.late", "task.early"]
    database.close()


async def test_what_was_under_way_when_an_endpoint_was_made_is_sent_and_what_was_over_is_not(
    postgresql_url: str,
) -> None:
    database = open_database(postgresql_url)
    told, commit = threading.Event(), threading.Event()

    def tell_and_wait(tx: Transaction) -> None:
        tell(tx, "task.late")
        told.set()
        assert commit.wait(20)

    async with Stage(database).open() as stage:
        slow = asyncio.create_task(database.run(tell_and_wait))
        assert await asyncio.to_thread(told.wait, 20)
        await stage.tell("task.over", settled=False)
        mine = await stage.create()
        commit.set()
        await slow
        await stage.tell("task.following")
        await stage.dispatcher.round()
        assert await stage.types(mine["id"]) == ["task.late", "task.following"]
    database.close()


async def test_a_dump_restored_on_a_server_that_counts_otherwise_goes_on(postgresql_url: str) -> None:
    database = open_database(postgresql_url)
    async with Stage(database).open() as stage:
        mine = await stage.create()
        await stage.database.run(execute, "UPDATE webhook_cursor SET transaction_id = 1000000000000")
        await stage.database.run(execute, "UPDATE webhook_endpoints SET since_transaction = 1000000000000")
        await stage.tell("task.completed")
        await stage.dispatcher.round()
        assert await stage.types(mine["id"]) == ["task.completed"]
        await stage.tell("task.failed")
        await stage.dispatcher.round()
        assert await stage.types(mine["id"]) == ["task.completed", "task.failed"]
    database.close()


async def test_whoever_finds_the_cursor_taken_neither_waits_nor_reads(postgresql_url: str) -> None:
    database = open_database(postgresql_url)
    taken, commit = threading.Event(), threading.Event()

    async with Stage(database).open() as stage:

        def dispatch_and_wait(tx: Transaction) -> bool:
            more = dispatch(tx, stage.engine, families_of(TYPES), 1)
            taken.set()
            assert commit.wait(20)
            return more

        mine = await stage.create()
        await stage.tell("task.created", "task.completed")
        slow = asyncio.create_task(database.run(dispatch_and_wait))
        assert await asyncio.to_thread(taken.wait, 20)
        async with asyncio.timeout(5):
            assert not await database.run(dispatch, stage.engine, families_of(TYPES), 1)
        commit.set()
        assert await slow
        assert await stage.types(mine["id"]) == ["task.created"]
        await stage.dispatcher.round()
        assert await stage.types(mine["id"]) == ["task.created", "task.completed"]
    database.close()


async def test_an_endpoint_that_commits_late_gets_what_follows_its_commit(postgresql_url: str) -> None:
    """Another's endpoint moves the cursor meanwhile: not past the place from which the late one counts."""
    database = open_database(postgresql_url)
    made, commit = threading.Event(), threading.Event()

    async with Stage(database).open() as stage:

        def create_and_wait(tx: Transaction) -> str:
            found = create_endpoint(tx, "bob", "0199c1f2-7a40-7cc3-98c4-dc0c0c07398f", "x", "", [], "s")
            made.set()
            assert commit.wait(20)
            return str(found["id"])

        await stage.create()
        slow = asyncio.create_task(database.run(create_and_wait))
        assert await asyncio.to_thread(made.wait, 20)
        await stage.tell("task.created", settled=False)
        await stage.dispatcher.round()
        commit.set()
        late = await slow
        await stage.tell("task.completed", user_id="bob")
        await stage.dispatcher.round()
        assert await stage.types(late, "bob") == ["task.completed"]
    database.close()


async def test_it_wakes_when_something_is_told(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("longtake.services.webhooks.dispatcher.POLL_SECONDS", 3600.0)
    mine = await stage.create()
    async with stage.dispatcher.running():
        for number in range(1, 4):
            await stage.tell("task.completed")
            await stage.until_delivered(mine["id"], number)


async def test_what_an_open_transaction_held_up_is_sent_soon_after_it_has_ended(
    postgresql_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dispatcher, "POLL_SECONDS", 3600.0)
    database = open_database(postgresql_url)
    async with Stage(database).open() as stage:
        mine = await stage.create()
        async with stage.dispatcher.running():
            with psycopg.connect(postgresql_url) as older:
                older.execute("SELECT pg_current_xact_id()")
                await stage.tell("task.completed", settled=False)
                # Nothing else is told: only looking again finds it.
                await until_read(database, dispatcher.is_stalled, bool)
                assert await stage.deliveries(mine["id"]) == []
            await stage.until_delivered(mine["id"], 1)
    database.close()


async def test_it_goes_on_after_the_database_failed_it(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("longtake.services.webhooks.dispatcher.POLL_SECONDS", 0.05)
    mine = await stage.create()
    await stage.database.run(execute, "ALTER TABLE webhook_cursor RENAME TO elsewhere")
    await stage.tell("task.completed")
    async with stage.dispatcher.running():
        await asyncio.sleep(0.3)
        await stage.database.run(execute, "ALTER TABLE elsewhere RENAME TO webhook_cursor")
        await stage.until_delivered(mine["id"], 1)


@pytest.mark.parametrize("steps", range(8))
async def test_it_ends_when_it_is_told_to_though_news_come_at_that_very_moment(
    database: Database, monkeypatch: pytest.MonkeyPatch, steps: int
) -> None:
    monkeypatch.setattr(dispatcher, "GATHER_SECONDS", 0)
    looked = asyncio.Event()

    class Quiet(Dispatcher):
        async def round(self) -> None:
            looked.set()

    quiet = Quiet(database, Engine(database), TYPES)
    async with asyncio.timeout(10):
        async with quiet.running():
            await looked.wait()
            for _ in range(10):
                await asyncio.sleep(0)
            database.signals.deliver(TOPIC)
            # However far the news have come by then.
            for _ in range(steps):
                await asyncio.sleep(0)
