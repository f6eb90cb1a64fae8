"""Events that wait behind an open transaction: operators learn whose it is, and that it is over."""

from __future__ import annotations

from typing import TYPE_CHECKING

import psycopg

from longtake import open_database
from longtake.services.alerts import Severity, list_alerts, raise_alert
from longtake.services.live.feed import PATIENCE_SECONDS, STALLED_CODE
from tests.databases import StoppedClock
from tests.live.stage import Desk, told
from tests.wait import until

if TYPE_CHECKING:
    from longtake import Database


async def alerts(database: Database) -> list[dict[str, object]]:
    return [one for one in await database.read(list_alerts) if one["code"] == STALLED_CODE]


async def test_a_transaction_that_stays_open_is_named_and_its_end_resolves_the_alert(postgresql_url: str) -> None:
    database, clock = open_database(postgresql_url), StoppedClock()
    desk = Desk(database, clock)
    follower = await desk.follow()
    with psycopg.connect(postgresql_url, application_name="a forgotten shell") as blocker:
        blocker.execute("SELECT pg_current_xact_id()")
        await told(database, "one", settled=False)
        pauses = [await desk.feed.round() for _ in range(8)]
        assert pauses[:3] == [0.01, 0.02, 0.04]
        assert pauses[-1] == 0.25
        assert await alerts(database) == []
        clock.advance(PATIENCE_SECONDS + 1)
        for _ in range(3):
            await desk.feed.round()
        [alert] = await alerts(database)
        assert (alert["severity"], alert["count"]) == ("WARNING", 1)
        assert "a forgotten shell" in str(alert["message"])
        assert str(blocker.info.backend_pid) in str(alert["message"])
        assert follower.subjects == []

    async def look() -> tuple[int, list[str]]:
        await desk.feed.round()
        return len(await alerts(database)), follower.subjects

    await until(look, "the event is told and the alert resolved", lambda seen: seen == (0, ["one"]))
    await follower.close()
    database.close()


async def until_alerts(database: Database, number: int) -> None:
    await until(lambda: alerts(database), f"{number} alerts", lambda found: len(found) == number)


async def test_the_alert_is_resolved_although_its_last_reader_has_left(postgresql_url: str) -> None:
    database, clock = open_database(postgresql_url), StoppedClock()
    desk = Desk(database, clock)
    async with desk.feed.running():
        follower = await desk.follow()
        with psycopg.connect(postgresql_url) as blocker:
            blocker.execute("SELECT pg_current_xact_id()")
            await told(database, "one", settled=False)
            await until(lambda: desk.feed._alert._since is not None)
            clock.advance(PATIENCE_SECONDS + 1)
            await until_alerts(database, 1)
            await follower.close()
        await until_alerts(database, 0)
        await until(lambda: desk.feed._place is None)
    database.close()


async def test_another_process_resolves_the_alert_of_one_that_was_killed(postgresql_url: str) -> None:
    database, clock = open_database(postgresql_url), StoppedClock()
    killed, other = Desk(database, clock), Desk(database, clock)
    followers = [await killed.follow(), await other.follow()]
    await other.feed.round()
    with psycopg.connect(postgresql_url) as blocker:
        blocker.execute("SELECT pg_current_xact_id()")
        await told(database, "one", settled=False)
        await killed.feed.round()
        clock.advance(PATIENCE_SECONDS + 1)
        await killed.feed.round()
        assert len(await alerts(database)) == 1

    async def look() -> list[dict[str, object]]:
        await other.feed.round()
        return await alerts(database)

    await until(look, "the alert is resolved", lambda found: not found)
    for follower in followers:
        await follower.close()
    database.close()


async def test_what_a_process_left_standing_when_it_was_stopped_is_resolved_by_the_next(database: Database) -> None:
    await database.run(raise_alert, Severity.WARNING, STALLED_CODE, "held up, said a process that is gone")
    desk = Desk(database)
    follower = await desk.follow()
    await desk.feed.round()
    assert await alerts(database) == []
    await follower.close()


async def test_a_transaction_that_only_reads_holds_nothing_up(postgresql_url: str) -> None:
    database = open_database(postgresql_url)
    desk = Desk(database)
    follower = await desk.follow()
    with psycopg.connect(postgresql_url) as reader:
        reader.execute("SELECT count(*) FROM events")
        await told(database, "one")
        await desk.feed.round()
        await follower.until_subjects("one")
    await follower.close()
    database.close()
