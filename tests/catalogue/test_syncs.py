"""The sync: when it begins, what it hands on, and that it goes on wherever it was left."""

from __future__ import annotations

import asyncio
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from sqlalchemy import text

from longtake.capabilities.catalogue.queries import TitleFilter
from longtake.capabilities.catalogue.tables import CALENDAR, POSTER, SEARCH, SYNC, SYNC_IDS, SYNC_POSTERS, YEAR
from longtake.engine.leases import retire_worker
from longtake.engine.maintenance import rescue
from tests.catalogue.stage import DAY, FEW, HOUR, CatalogueStudio, given
from tests.engine.stage import hire

if TYPE_CHECKING:
    import pytest

    from longtake import Transaction
    from tests.catalogue.conftest import Open


async def count(studio: CatalogueStudio, kind: str) -> int:
    return (await studio.jobs()).count(kind)


async def test_a_second_sync_sends_no_requests(studio: CatalogueStudio) -> None:
    """M4, M6: syncs."""
    await studio.bring_all(studio.sandbox.titles(limit=FEW))
    await studio.work()
    assert studio.sandbox.calls() != []
    studio.sandbox.clear_calls()
    before = await studio.sql("SELECT * FROM titles ORDER BY id")
    ran = await studio.sync()
    assert sorted(ran) == [SYNC, SYNC_IDS, SYNC_POSTERS]
    assert studio.sandbox.calls() == []
    assert await studio.sql("SELECT * FROM titles ORDER BY id") == before


async def test_a_sync_runs_every_hour(open_studio: Open) -> None:
    """M4: syncs."""
    async with open_studio(sync_minutes=60) as studio:
        assert SYNC not in await studio.step()
        studio.clock.advance(HOUR - 1)
        assert SYNC not in await studio.step()
        studio.clock.advance(2)
        assert SYNC in await studio.step()
        assert SYNC not in await studio.step()
        studio.clock.advance(HOUR)
        assert SYNC in await studio.step()
        rhythm = (await studio.catalogue.status())["schedules"]
        assert rhythm["sync"]["last_at"] == "2026-01-01T14:00:01Z"
        assert rhythm["sync"]["next_at"] == "2026-01-01T15:00:01Z"


async def test_a_sync_never_comes_by_itself_where_the_setting_says_so(studio: CatalogueStudio) -> None:
    studio.clock.advance(2 * DAY)
    ran = await studio.step()
    assert SYNC not in ran
    assert CALENDAR not in ran
    assert (await studio.catalogue.status())["schedules"] == {}


async def test_the_calendar_is_refreshed_daily_once_there_are_titles(open_studio: Open) -> None:
    """M4: syncs."""
    async with open_studio(calendar_hours=24) as studio:
        studio.clock.advance(DAY + 1)
        assert CALENDAR in await studio.step()
        assert studio.asked("calendar") == [], "nobody here has a catalogue"
        assert SYNC not in await studio.jobs()
        await studio.bring(title_english="a title")
        await studio.work()
        studio.clock.advance(DAY)
        assert CALENDAR in await studio.step()
        assert len(studio.asked("calendar")) == 1


async def test_a_calendar_refresh_adds_titles_and_syncs_and_repeating_it_changes_nothing(
    studio: CatalogueStudio,
) -> None:
    """M1, M4: titles are unique, and a refresh repeats nothing."""
    await studio.catalogue.refresh_calendar()
    assert await studio.step() == [CALENDAR]
    assert await studio.jobs() == [SYNC]
    [(titles,)] = await studio.sql("SELECT count(*) FROM titles")
    assert 40 <= titles <= 60
    await studio.work()
    status = await studio.catalogue.status()
    assert status["posters"]["remote"] == 0
    assert status["posters"]["stored"] > 30
    assert status["tmdb"]["waiting"] == 0
    assert await studio.sql("SELECT count(*) FROM posters WHERE url LIKE '%/r/400/%'") == [(0,)]
    before = await studio.sql("SELECT * FROM titles ORDER BY id")
    studio.sandbox.clear_calls()
    await studio.catalogue.refresh_calendar()
    assert sorted(await studio.work()) == [CALENDAR, SYNC, SYNC_IDS, SYNC_POSTERS], "also where it brings nothing new"
    assert await studio.sql("SELECT * FROM titles ORDER BY id") == before
    assert [call["route"] for call in studio.sandbox.calls()] == ["calendar"]
    told = await studio.sql("SELECT data FROM events WHERE type = 'catalogue.calendar' ORDER BY sequence")
    assert len(told) == 2


async def test_a_calendar_that_cannot_be_had_is_waited_for(studio: CatalogueStudio) -> None:
    studio.sandbox.faults("status", status=503, route="calendar", times=2)
    studio.sandbox.faults("html", route="calendar", times=1)
    await studio.catalogue.refresh_calendar()
    for _ in range(20):
        await studio.run_only(CALENDAR)
        studio.clock.advance(10)
    assert [call["status"] for call in studio.asked("calendar")] == [503, 503, 200, 200]
    [(titles,)] = await studio.sql("SELECT count(*) FROM titles")
    assert titles >= 40


async def test_what_bangumi_says_and_nobody_can_keep_is_left_out(studio: CatalogueStudio) -> None:
    """Ids of a hundred digits, control characters, addresses that are none: the rest of the title counts."""
    images = {"large": "ftp://example.com/x.jpg"}
    items = {"id": 77, "name": "a\0b" + "x" * 500, "name_cn": 7, "date": "9999-99-99", "images": images}
    title_id = await studio.bring(bangumi_id=77)
    exact = studio.truth("exact")
    other = await studio.bring(bangumi_id=exact["bangumi_id"])
    studio.sandbox.faults("replace", route="subject", path_contains=str(exact["bangumi_id"]), replace=items)
    await studio.work()
    assert (await studio.show(title_id))["error"]["code"] == "NOT_FOUND"
    assert (await studio.show(other))["title_japanese"] is None, "it spoke of another subject"
    [(name,)] = await studio.sql("SELECT title_japanese FROM titles WHERE bangumi_id = 77")
    assert name.startswith("a\N{REPLACEMENT CHARACTER}b")
    assert len(name) == 300


async def test_a_subject_with_a_number_that_no_column_holds_is_none(studio: CatalogueStudio) -> None:
    exact = studio.truth("exact")
    title_id = await studio.bring(bangumi_id=exact["bangumi_id"])
    studio.sandbox.faults("replace", route="subject", replace={"id": 2**63})
    await studio.work()
    assert (await studio.show(title_id))["title_japanese"] is None
    assert await studio.sql("SELECT count(*) FROM titles") == [(1,)]


# -- chunks and walks --------------------------------------------------------------------------------------------


async def test_a_sync_enqueues_a_hundred_posters_at_a_time(studio: CatalogueStudio) -> None:
    """M4: syncs."""
    studio.sandbox.settings(titles=250)
    await studio.bring_all(studio.sandbox.titles())
    await studio.run_only(SYNC)
    handed = []
    for _ in range(5):
        await studio.run_only(SYNC_POSTERS)
        handed.append(await count(studio, POSTER))
    assert handed == [100, 200, 250, 250, 250]
    assert await count(studio, SYNC_POSTERS) == 0
    hashes = await studio.sql("SELECT DISTINCT key FROM jobs WHERE kind = 'catalogue.poster'")
    assert len(hashes) == 250


async def test_a_sync_enqueues_a_hundred_titles_at_a_time(studio: CatalogueStudio) -> None:
    """M4: syncs."""
    studio.sandbox.settings(titles=250)
    titles = [given(one, poster=None) for one in studio.sandbox.titles()]
    await studio.catalogue.add_many(titles)
    looked = []
    for _ in range(200):
        await studio.run_only(SYNC, SYNC_IDS, YEAR)
        looked.append((await studio.sql("SELECT count(*) FROM titles WHERE tmdb_looked_up_at IS NOT NULL"))[0][0])
        if not {SYNC, SYNC_IDS, YEAR} & set(await studio.jobs()):
            break
        studio.clock.advance(0.5)
    steps = [after - before for before, after in pairwise(looked) if after > before]
    assert len(steps) == 3
    assert max(steps) <= 100
    assert looked[-1] + await count(studio, SEARCH) == 250


async def waiting(studio: CatalogueStudio) -> list[int]:
    """Return the years of the titles that have not been looked up."""
    return [year for (year,) in await studio.sql("SELECT year FROM titles WHERE tmdb_looked_up_at IS NULL")]


def apart(studio: CatalogueStudio) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Return a title, and others of years that have nothing to do with its own."""
    truth = studio.sandbox.titles()
    bad = studio.truth("exact")
    others = [one for one in truth if abs(one["year"] - bad["year"]) > 2]
    return bad, [one for one in others if one["kind"] in {"exact", "absent"}][:6]


async def test_a_list_that_cannot_be_had_keeps_only_those_waiting_that_need_it(studio: CatalogueStudio) -> None:
    """The year is first in the walk's order, and never answered: all others are found or searched for meanwhile."""
    bad, others = apart(studio)
    studio.sandbox.faults("status", status=503, route="discover", query_contains=f"first_air_date_year={bad['year']}")
    await studio.bring(**given(bad, poster=None))
    studio.clock.advance(1)
    ids = await studio.bring_all([one | {"cover_url": None} for one in others])
    await studio.bring(title_japanese="誰も知らない")
    for _ in range(40):
        await studio.step()
        studio.clock.advance(1)
    assert await waiting(studio) == [bad["year"]]
    expected = ["found" if one["kind"] == "exact" else "not_found" for one in others]
    assert [(await studio.show(one))["tmdb_state"] for one in ids] == expected
    assert len(studio.asked("search")) == len({call["query"] for call in studio.asked("search")}), "once each"
    assert await count(studio, SYNC_IDS) == 1, "it waits for the list"


async def test_a_walk_that_has_waited_long_enough_for_a_list_goes_on_behind_those_who_need_it(
    studio: CatalogueStudio, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("longtake.capabilities.catalogue.sync.LIST_CHECKS", 20)
    monkeypatch.setattr("longtake.capabilities.catalogue.sync.CHUNK", 2)
    bad, others = apart(studio)
    needing = f"first_air_date_year={bad['year']}"
    rule = studio.sandbox.faults("status", status=503, route="discover", query_contains=needing)
    for number in range(5):
        await studio.bring(**given(bad, bangumi_id=number + 1, poster=None))
    studio.clock.advance(1)
    await studio.bring_all([one | {"cover_url": None} for one in others])
    looks = 0
    for _ in range(120):
        looks += (await studio.step()).count(SYNC_IDS)
        studio.clock.advance(0.5)
    assert await waiting(studio) == [bad["year"]] * 5
    assert await count(studio, SYNC_IDS) == 0, "the walk has ended"
    assert looks < 60, "it has waited once for the list, not for each of its titles"
    assert studio.sandbox.applied(rule) > 0
    studio.sandbox.clear_faults()
    studio.clock.advance(HOUR)
    await studio.sync()
    assert await waiting(studio) == []


async def test_a_sync_requested_while_another_is_under_way_is_not_lost(studio: CatalogueStudio) -> None:
    """M4: A walk goes by when things became due: one that becomes due before its place is not seen by it."""
    studio.sandbox.settings(titles=120)
    titles = studio.sandbox.titles()
    await studio.bring_all(titles[:110])
    await studio.run_only(SYNC)
    await studio.run_only(SYNC_POSTERS)
    assert await count(studio, POSTER) == 100
    [late] = await studio.bring_all(titles[110:111])
    await studio.hurry_poster(titles[110]["cover_url"])
    await studio.run_only(SYNC)
    assert await count(studio, SYNC) == 2, "one waits for each walk that is under way"
    for _ in range(6):
        await studio.run_only(SYNC, SYNC_POSTERS)
        studio.clock.advance(1)
    assert await count(studio, POSTER) == 111
    assert (await studio.show(late))["poster_state"] == "remote"


async def test_a_sync_continues_in_another_worker_where_the_first_one_died(studio: CatalogueStudio) -> None:
    """M6: safe to repeat, resumed after a restart, stopped in order."""
    studio.sandbox.settings(titles=250)
    await studio.bring_all(studio.sandbox.titles())
    await studio.run_only(SYNC)
    await studio.run_only(SYNC_POSTERS)

    def die_and_rescue(tx: Transaction) -> str:
        tx.execute(text("DELETE FROM workers"))
        assert rescue(tx, studio.engine) >= 1
        return hire(tx)

    claimed = await studio.claim_kind(SYNC_POSTERS)
    assert len(claimed) == 1
    memo = claimed[0].memo
    outcome = await studio.engine.kinds[SYNC_POSTERS].handler(claimed[0])
    dead, studio.worker = studio.worker, await studio.database.run(die_and_rescue)
    assert not await studio.apply(claimed[0], outcome), "what the dead one did is not written"
    assert await count(studio, POSTER) == 100
    assert studio.worker != dead
    [again] = await studio.claim_kind(SYNC_POSTERS)
    assert again.memo == memo
    assert await studio.run(again)
    assert await count(studio, POSTER) == 200


async def test_one_address_has_one_download_at_a_time(studio: CatalogueStudio) -> None:
    """M5: limits over all workers."""
    await studio.bring(**given(studio.truth("exact"), tmdb_id=1))
    for _ in range(3):
        await studio.catalogue.trigger_sync()
        await studio.run_only(SYNC, SYNC_POSTERS)
        await studio.run_only(SYNC, SYNC_POSTERS)
        await studio.run_only(SYNC, SYNC_POSTERS)
    assert await count(studio, POSTER) == 1
    [job] = await studio.claim_kind(POSTER)
    await studio.sync_and_leave()
    assert await count(studio, POSTER) == 1, "also while it runs"
    assert await studio.run(job)


async def test_lanes_allow_five_titles_and_five_posters_at_once_by_default(open_studio: Open) -> None:
    """M5: limits over all workers."""
    async with open_studio() as studio:
        lanes = {lane.name: lane for lane in studio.application.lanes}
        assert (lanes["tmdb"].max_running, lanes["tmdb"].rate) == (5, (40, 1.0))
        assert lanes["catalogue.posters"].max_running == 5
    async with open_studio(posters_at_once=0, titles_at_once=7, tmdb_per_second=0) as studio:
        lanes = {lane.name: lane for lane in studio.application.lanes}
        assert (lanes["tmdb"].max_running, lanes["tmdb"].rate) == (7, None)
        assert lanes["catalogue.posters"].max_running is None


# -- running and stopping ----------------------------------------------------------------------------------------


async def test_a_worker_of_a_process_that_crashed_does_not_count_as_running(studio: CatalogueStudio) -> None:
    """Where one process owns the database, a worker of an earlier owner is gone, though its lease still runs."""
    await studio.database.run(retire_worker, studio.worker)
    assert not await studio.catalogue.is_running()
    await studio.database.run(hire, incarnation="an earlier owner")
    is_shared = studio.database.incarnation is None
    assert await studio.catalogue.is_running() is is_shared
    assert (await studio.catalogue.status())["running"] is is_shared


async def test_after_a_shutdown_nothing_begins_until_the_next_start(studio: CatalogueStudio) -> None:
    """M6: safe to repeat, resumed after a restart, stopped in order."""
    title_id = await studio.bring(**given(studio.truth("exact")))
    assert await studio.catalogue.is_running()
    assert await studio.catalogue.shutdown(5.0)
    assert not await studio.catalogue.is_running()
    assert await studio.step() == []
    assert (await studio.catalogue.status())["running"] is False
    assert await studio.jobs() == [SYNC], "what waits is kept"
    await studio.catalogue.start()
    assert await studio.catalogue.is_running()
    await studio.work()
    assert (await studio.show(title_id))["poster_state"] == "stored"


async def test_a_shutdown_waits_for_running_work_and_says_if_it_takes_too_long(
    studio: CatalogueStudio, monkeypatch: pytest.MonkeyPatch
) -> None:
    """M6: safe to repeat, resumed after a restart, stopped in order."""
    monkeypatch.setattr("longtake.capabilities.catalogue.service.CHECK_SECONDS", 0.01)
    await studio.catalogue.trigger_sync()
    [job] = await studio.claim_kind(SYNC)
    assert not await studio.catalogue.shutdown(0.05)
    stopping = asyncio.create_task(studio.catalogue.shutdown(30.0))
    assert await studio.run(job)
    assert await stopping
    assert not {SYNC_POSTERS, SYNC_IDS} - set(await studio.jobs())


async def test_the_catalogue_is_not_running_without_a_live_worker(studio: CatalogueStudio) -> None:
    """M6: safe to repeat, resumed after a restart, stopped in order."""
    assert await studio.catalogue.is_running()
    studio.clock.advance(3_600)
    assert not await studio.catalogue.is_running()


async def test_the_status_says_what_is_under_way(studio: CatalogueStudio) -> None:
    idle = await studio.catalogue.status()
    assert (idle["syncing"], idle["jobs"], idle["titles"]) == (False, {}, 0)
    await studio.bring(**given(studio.truth("exact")))
    busy = await studio.catalogue.status()
    assert (busy["syncing"], busy["jobs"]) == (True, {SYNC: {"ready": 1, "running": 0}})
    await studio.work()
    done = await studio.catalogue.status()
    assert (done["syncing"], done["titles"], done["posters"]["stored"]) == (False, 1, 1)


async def test_titles_are_paged_newest_first_and_filtered(studio: CatalogueStudio) -> None:
    ids = [await studio.bring(bangumi_id=one, title_english=f"t{one}", year=2000 + one) for one in (1, 2, 3)]
    first = await studio.catalogue.page(TitleFilter(), None, 2)
    assert [one["id"] for one in first] == [ids[2], ids[1]]
    rest = await studio.catalogue.page(TitleFilter(), first[-1]["id"], 2)
    assert [one["id"] for one in rest] == [ids[0]]
    found: dict[str, Any] = {
        "bangumi_id": await studio.catalogue.page(TitleFilter(bangumi_id=2), None, 9),
        "year": await studio.catalogue.page(TitleFilter(year=2002), None, 9),
    }
    assert {name: [one["id"] for one in page] for name, page in found.items()} == {
        "bangumi_id": [ids[1]],
        "year": [ids[1]],
    }
    assert await studio.catalogue.page(TitleFilter(in_trouble=True), None, 9) == []
    assert len(await studio.catalogue.page(TitleFilter(poster="none"), None, 9)) == 3


# -- jobs that come twice ----------------------------------------------------------------------------------------


async def overtaken(studio: CatalogueStudio, walk: str, kind: str) -> None:
    """Let a walk find something due, and its job end before the walk's outcome is applied: that begins it again."""
    await studio.catalogue.trigger_sync()
    await studio.run_only(SYNC)
    [found] = await studio.claim_kind(walk)
    outcome = await studio.engine.kinds[walk].handler(found)
    assert [one.kind for one in outcome.then] == [kind]
    for _ in range(20):
        await studio.run_only(kind)
    assert await count(studio, kind) == 0
    studio.sandbox.clear_calls()
    assert await studio.apply(found, outcome)
    assert await count(studio, kind) == 1
    for _ in range(20):
        await studio.run_only(kind)
    assert await count(studio, kind) == 0


async def begin(studio: CatalogueStudio, walk: str) -> None:
    """Let a walk hand on what it finds, and end."""
    await studio.run_only(SYNC)
    for _ in range(3):
        await studio.run_only(walk)
    studio.clock.advance(2)


async def test_a_poster_stored_during_a_sync_is_not_requested_again(studio: CatalogueStudio) -> None:
    """M5: limits over all workers."""
    studio.sandbox.faults("html", route="image", path_contains="/cover/l/", times=1)
    title_id = await studio.bring(**given(studio.truth("exact"), tmdb_id=1))
    await begin(studio, SYNC_POSTERS)
    assert await count(studio, POSTER) == 1
    await overtaken(studio, SYNC_POSTERS, POSTER)
    assert studio.sandbox.calls() == []
    assert (await studio.show(title_id))["poster_state"] == "stored"
    assert await studio.sql("SELECT version FROM posters") == [(1,)]


async def test_a_title_searched_for_during_a_sync_is_not_searched_for_again(
    studio: CatalogueStudio,
) -> None:
    """M3: TMDB ids."""
    title_id = await studio.bring(title_japanese="誰も知らない")
    await begin(studio, SYNC_IDS)
    assert await count(studio, SEARCH) == 1
    await overtaken(studio, SYNC_IDS, SEARCH)
    assert studio.sandbox.calls() == []
    assert (await studio.show(title_id))["tmdb_state"] == "not_found"


async def test_a_year_list_fetched_during_a_sync_is_not_requested_again(studio: CatalogueStudio) -> None:
    """M3: TMDB ids."""
    await studio.bring(**given(studio.truth("exact"), poster=None))
    await studio.run_only(SYNC)
    await studio.run_only(SYNC_IDS)
    assert await count(studio, YEAR) == 1
    studio.clock.advance(1)
    [walk] = await studio.claim_kind(SYNC_IDS)
    outcome = await studio.engine.kinds[SYNC_IDS].handler(walk)
    for _ in range(20):
        await studio.run_only(YEAR)
    studio.sandbox.clear_calls()
    assert await studio.apply(walk, outcome)
    assert await count(studio, YEAR) == 1
    await studio.work()
    assert studio.asked("discover") == []
