"""Which show of TMDB a title is: by the lists of years, by search, or left to a person."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from longtake.capabilities.catalogue.errors import InvalidTitle
from longtake.capabilities.catalogue.queries import TitleFilter
from longtake.capabilities.catalogue.tables import SEARCH, SYNC, SYNC_IDS, YEAR
from longtake.capabilities.catalogue.titles import WrittenTitle
from longtake.errors import NotFound
from longtake.services.provider_calls import try_lanes_again
from tests.catalogue.stage import DAY, FEW, WEEK, CatalogueStudio, given, sought
from tests.engine.stage import run_permitted

if TYPE_CHECKING:
    from tests.catalogue.conftest import Open

LANE = "tmdb"


async def test_every_title_ends_with_its_true_tmdb_id(studio: CatalogueStudio) -> None:
    """M3: TMDB ids."""
    truth = studio.sandbox.titles(limit=FEW)
    assert {one["kind"] for one in truth} == {"exact", "year", "alias", "ambiguous", "absent"}
    wanted = [sought(one, title_english=one["names"]["en"]) for one in truth]
    ids = [one.id for one in await studio.catalogue.add_many(wanted) if isinstance(one, WrittenTitle)]
    await studio.work()
    for one, title_id in zip(truth, ids, strict=True):
        title = await studio.show(title_id)
        found_by = {"exact": "title", "year": "title", "alias": "search"}.get(one["kind"])
        assert (title["tmdb_id"], title["tmdb_found_by"]) == (one["tmdb_id"], found_by), one
        state = {"ambiguous": "in_doubt", "absent": "not_found"}.get(one["kind"], "found")
        assert title["tmdb_state"] == state
        candidates = {each["tmdb_id"] for each in title["tmdb_candidates"]}
        assert candidates == (set(one["tmdb_ids"]) if state == "in_doubt" else set())
        assert title["tmdb_looked_up_at"] is not None
        assert (title["tmdb_next_look_up_at"] is None) is (state == "found")
    counts = (await studio.catalogue.status())["tmdb"]
    assert counts == {"found": 36, "in_doubt": 2, "not_found": 2, "waiting": 0, "none": 0}
    for state, number in counts.items():
        only: Any = state
        page = await studio.catalogue.page(TitleFilter(tmdb=only), None, 100)
        assert [one["tmdb_state"] for one in page] == [state] * number


async def test_each_page_of_a_year_is_requested_once_for_all_titles(studio: CatalogueStudio) -> None:
    """M3: TMDB ids."""
    await studio.catalogue.add_many([sought(one) for one in studio.sandbox.titles()])
    await studio.work()
    asked = [call["query"] for call in studio.asked("discover")]
    assert len(asked) == len(set(asked)) > 37
    await studio.bring(**sought(studio.truth("exact"), bangumi_id=1, title_japanese="nobody knows this"))
    await studio.work()
    assert len(studio.asked("discover")) == len(asked), "the lists are known for a day"


@pytest.mark.parametrize(("kind", "route"), [(YEAR, "discover"), (SEARCH, "search")])
async def test_a_job_whose_permit_ended_while_it_read_asks_nothing_and_comes_again(
    studio: CatalogueStudio, kind: str, route: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    exact = studio.truth("exact")
    year = exact["year"] if kind == YEAR else None
    title_id = await studio.bring(title_japanese=exact["names"]["ja"], year=year)
    for _ in range(2):
        await studio.run_only(SYNC, SYNC_IDS)
    [job] = await studio.claim_kind(kind)
    read = studio.database.read

    async def slowly(*arguments: Any) -> Any:
        studio.clock._monotonic += 1.0
        return await read(*arguments)

    monkeypatch.setattr(studio.database, "read", slowly)
    verdict = await run_permitted(studio.engine, job, 0.03)
    monkeypatch.undo()
    assert verdict.outcome is None
    assert await studio.database.run(studio.engine.finish, [verdict]) == {job.id}
    assert studio.asked(route) == []
    await studio.work()
    assert (await studio.show(title_id))["tmdb_id"] == exact["tmdb_id"]
    assert studio.asked(route) != []


async def test_only_the_years_that_are_needed_are_asked_for(studio: CatalogueStudio) -> None:
    exact = studio.truth("exact")
    await studio.bring(**sought(exact))
    await studio.work()
    years = {part for call in studio.asked("discover") for part in [call["query"].split("first_air_date_year=")[1][:4]]}
    assert years == {str(exact["year"])}, "a title of its year needs no year beside it"


async def test_an_alias_that_is_nothing_like_our_name_is_taken_and_one_that_is_similar_is_left_to_a_person(
    studio: CatalogueStudio,
) -> None:
    similar, different = studio.truth("alias", 0), studio.truth("alias", 2)
    ids = [await studio.bring(**sought(one)) for one in (similar, different)]
    await studio.work()
    doubtful, found = [await studio.show(one) for one in ids]
    assert (found["tmdb_id"], found["tmdb_found_by"]) == (different["tmdb_id"], "search")
    assert doubtful["tmdb_state"] == "in_doubt"
    assert [one["tmdb_id"] for one in doubtful["tmdb_candidates"]] == similar["tmdb_ids"]


async def test_a_title_that_tmdb_does_not_have_rests_for_seven_days(studio: CatalogueStudio) -> None:
    """M3: TMDB ids."""
    title_id = await studio.bring(**sought(studio.truth("absent")))
    await studio.work()
    assert (await studio.show(title_id))["tmdb_state"] == "not_found"
    studio.sandbox.clear_calls()
    studio.clock.advance(WEEK - 3_600)
    await studio.sync()
    assert studio.sandbox.calls() == []
    studio.clock.advance(3_600)
    await studio.sync()
    assert {call["route"] for call in studio.sandbox.calls()} == {"discover", "search"}


async def test_a_title_in_doubt_is_looked_up_again_and_found_once_there_is_no_doubt(studio: CatalogueStudio) -> None:
    ambiguous, exact = studio.truth("ambiguous"), studio.truth("exact")
    title_id = await studio.bring(**sought(ambiguous))
    await studio.work()
    renamed = "UPDATE titles SET title_japanese = :name, year = :year"
    await studio.change(renamed, name=exact["names"]["ja"], year=exact["year"])
    studio.clock.advance(WEEK)
    await studio.sync()
    title = await studio.show(title_id)
    assert (title["tmdb_id"], title["tmdb_candidates"], title["tmdb_state"]) == (exact["tmdb_id"], [], "found")


async def test_a_title_without_a_year_is_searched_for(studio: CatalogueStudio) -> None:
    exact = studio.truth("exact")
    title_id = await studio.bring(title_japanese=exact["names"]["ja"])
    await studio.work()
    title = await studio.show(title_id)
    assert (title["tmdb_id"], title["tmdb_found_by"]) == (exact["tmdb_id"], "search")
    assert studio.asked("discover") == []


async def test_a_title_without_a_japanese_name_is_not_looked_up(studio: CatalogueStudio) -> None:
    title_id = await studio.bring(title_english="Fox", year=2009)
    await studio.work()
    assert (await studio.show(title_id))["tmdb_state"] == "none"
    assert studio.asked("discover", "search") == []


async def test_a_search_goes_through_all_names_until_one_is_enough(studio: CatalogueStudio) -> None:
    exact = studio.truth("exact")
    names = {"title_japanese": "誰も知らない", "title_chinese": "没有人知道", "title_english": exact["names"]["en"]}
    title_id = await studio.bring(**names, year=exact["year"])
    await studio.work()
    assert (await studio.show(title_id))["tmdb_id"] == exact["tmdb_id"]
    assert len(studio.asked("search")) == 3


# -- keys --------------------------------------------------------------------------------------------------------


async def test_without_a_key_posters_still_come_and_ids_wait(open_studio: Open) -> None:
    async with open_studio(tmdb_api_key="") as studio:
        title_id = await studio.bring(**given(studio.truth("exact")))
        await studio.work()
        title = await studio.show(title_id)
        assert (title["poster_state"], title["tmdb_state"], title["error"]) == ("stored", "waiting", None)
        assert not (await studio.catalogue.status())["tmdb_configured"]
        assert studio.asked("discover", "search") == []
    async with open_studio() as studio:
        await studio.sync()
        assert (await studio.show(title_id))["tmdb_state"] == "found"


async def test_a_revoked_tmdb_key_pauses_the_lane_with_an_alert_until_there_is_another(
    open_studio: Open,
) -> None:
    """F48: a key is revoked while tasks run."""
    async with open_studio() as studio:
        studio.sandbox.settings(keys=["another-key"])
        title_id = await studio.bring(**given(studio.truth("exact")))
        await studio.until_rest_of_posters()
        assert (await studio.show(title_id))["poster_state"] == "stored", "its poster does not wait for TMDB"
        lane = await studio.lane(LANE)
        assert (lane.paused, lane.paused_reason) == (True, "PROVIDER_UNAUTHORIZED")
        assert ("PROVIDER_UNAUTHORIZED", "open") in await studio.alerts()
        asked = len(studio.asked("discover"))
        assert asked == 1
    async with open_studio(tmdb_api_key="another-key") as studio:
        await studio.database.run(try_lanes_again, ["tmdb"], {LANE})
        assert not (await studio.lane(LANE)).paused
        assert ("PROVIDER_UNAUTHORIZED", "open") not in await studio.alerts()
        await studio.work(rounds=120)
        assert (await studio.show(title_id))["tmdb_state"] == "found"


async def test_a_key_is_never_part_of_what_is_said(open_studio: Open) -> None:
    async with open_studio(tmdb_api_key="canary-of-a-key") as studio:
        await studio.bring(title_japanese="a")
        await studio.until_rest_of_posters()
        said = [await studio.sql(f"SELECT * FROM {table}") for table in ("titles", "jobs", "alerts", "events")]
        assert "canary-of-a-key" not in str(said)
        assert "PROVIDER_UNAUTHORIZED" in str(said)


# -- trouble -----------------------------------------------------------------------------------------------------


async def test_a_busy_tmdb_is_obeyed(studio: CatalogueStudio) -> None:
    """F37: 429 with Retry-After."""
    studio.sandbox.faults("status", status=429, retry_after=40, route="discover", times=1)
    title_id = await studio.bring(**sought(studio.truth("exact")))
    await studio.until_rest_of_posters()
    assert await studio.wait_of(YEAR) == [pytest.approx(40, abs=5)]
    assert (await studio.lane(LANE)).state.blocked == pytest.approx(40, abs=5)
    studio.clock.advance(41)
    await studio.work()
    assert (await studio.show(title_id))["tmdb_state"] == "found"


async def test_titles_are_found_after_tmdb_recovers(studio: CatalogueStudio) -> None:
    """F36: a provider answers 5xx."""
    studio.sandbox.faults("status", status=503, route="discover", times=2)
    studio.sandbox.faults("drop", route="search", times=2)
    ids = [await studio.bring(**sought(studio.truth(kind))) for kind in ("exact", "absent")]
    await studio.work(rounds=120)
    states = [(await studio.show(one)) for one in ids]
    assert [one["tmdb_state"] for one in states] == ["found", "not_found"]
    assert [one["error"] for one in states] == [None, None]


async def test_a_title_says_that_its_search_waits(studio: CatalogueStudio) -> None:
    studio.sandbox.faults("status", status=503, route="search", times=1)
    title_id = await studio.bring(title_japanese="誰も知らない")
    await studio.until_rest()
    error = (await studio.show(title_id))["error"]
    assert (error["of"], error["code"]) == ("tmdb", "PROVIDER_UNAVAILABLE")
    await studio.work()
    assert (await studio.show(title_id))["error"] is None


async def test_a_year_whose_list_is_refused_has_its_titles_searched_for(studio: CatalogueStudio) -> None:
    studio.sandbox.faults("status", status=400, route="discover")
    exact = studio.truth("exact")
    title_id = await studio.bring(**sought(exact))
    await studio.work()
    title = await studio.show(title_id)
    assert (title["tmdb_id"], title["tmdb_found_by"]) == (exact["tmdb_id"], "search")
    assert len(studio.asked("discover")) == 3, "its year and those beside it, once each"
    [(error,)] = await studio.sql("SELECT DISTINCT error FROM tmdb_years")
    assert error


async def test_a_search_that_is_refused_rests_for_seven_days(studio: CatalogueStudio) -> None:
    studio.sandbox.faults("status", status=422, route="search")
    title_id = await studio.bring(title_japanese="誰も知らない")
    await studio.work()
    title = await studio.show(title_id)
    assert (title["error"]["of"], title["tmdb_state"]) == ("tmdb", "not_found")
    await studio.sync()
    assert len(studio.asked("search")) == 1
    studio.sandbox.clear_faults()
    studio.clock.advance(WEEK)
    await studio.sync()
    assert (await studio.show(title_id))["error"] is None


@pytest.mark.parametrize("route", ["discover", "search"])
async def test_what_no_database_can_hold_keeps_no_title_from_being_found(studio: CatalogueStudio, route: str) -> None:
    """A NUL in a name, a number beyond all columns: the show is left out or its name mended, and all goes on."""
    exact = studio.truth("exact")
    strange = {"id": 7, "original_language": "j\0a", "first_air_date": "2009\0", "name": "a\0b", "original_name": "\0b"}
    huge = strange | {"id": 2**63}
    studio.sandbox.faults("replace", route=route, replace={"results": [strange, huge], "total_pages": 1}, times=1)
    year = {"year": exact["year"]} if route == "discover" else {}
    title_id = await studio.bring(title_japanese=exact["names"]["ja"], **year)
    await studio.work()
    assert (await studio.show(title_id))["tmdb_state"] in {"found", "not_found", "in_doubt"}
    assert await studio.sql("SELECT count(*) FROM job_attempts WHERE outcome = 'retry'") == [(0,)]


# -- people ------------------------------------------------------------------------------------------------------


async def test_look_ups_never_change_what_a_person_chose(studio: CatalogueStudio) -> None:
    """M3: TMDB ids."""
    ambiguous = studio.truth("ambiguous")
    title_id = await studio.bring(**sought(ambiguous))
    await studio.work()
    chosen = await studio.catalogue.choose(title_id, ambiguous["tmdb_ids"][1])
    assert (chosen["tmdb_id"], chosen["tmdb_found_by"]) == (ambiguous["tmdb_ids"][1], "person")
    assert (chosen["tmdb_candidates"], chosen["tmdb_next_look_up_at"]) == ([], None)
    studio.sandbox.clear_calls()
    studio.clock.advance(2 * WEEK)
    await studio.sync()
    assert (await studio.show(title_id))["tmdb_id"] == ambiguous["tmdb_ids"][1]
    assert studio.sandbox.calls() == []


@pytest.mark.parametrize("kind", [SEARCH, SYNC_IDS])
async def test_a_choice_that_is_made_while_a_look_up_runs_stays(studio: CatalogueStudio, kind: str) -> None:
    exact = studio.truth("exact")
    year = {} if kind == SEARCH else {"year": exact["year"]}
    title_id = await studio.bring(title_japanese=exact["names"]["ja"], **year)
    for _ in range(30):
        jobs = await studio.claim()
        running = [job for job in jobs if job.kind == kind]
        for job in jobs:
            if job.kind != kind:
                await studio.run(job)
        for job in running:
            outcome = await studio.engine.kinds[kind].handler(job)
            if kind == SEARCH or getattr(outcome.data, "found", None):
                await studio.catalogue.choose(title_id, None)
            await studio.apply(job, outcome)
        studio.clock.advance(1)
    title = await studio.show(title_id)
    assert (title["tmdb_id"], title["tmdb_found_by"], title["tmdb_state"]) == (None, "person", "none")


async def test_a_person_may_say_that_tmdb_does_not_have_it_and_take_that_back(studio: CatalogueStudio) -> None:
    exact = studio.truth("exact")
    title_id = await studio.bring(**sought(exact))
    await studio.work()
    none = await studio.catalogue.choose(title_id, None)
    assert (none["tmdb_id"], none["tmdb_state"], none["tmdb_found_by"]) == (None, "none", "person")
    await studio.bring(**sought(exact, title_english="another name"))
    await studio.work()
    assert (await studio.show(title_id))["tmdb_state"] == "none"
    again = await studio.catalogue.look_up_again(title_id)
    assert again["tmdb_state"] == "waiting"
    await studio.work()
    title = await studio.show(title_id)
    assert (title["tmdb_id"], title["tmdb_found_by"]) == (exact["tmdb_id"], "title")


async def test_a_show_that_there_is_not_cannot_be_chosen(studio: CatalogueStudio) -> None:
    title_id = await studio.bring(title_japanese="a")
    with pytest.raises(InvalidTitle, match="TMDB has no show 999999999"):
        await studio.catalogue.choose(title_id, 999_999_999)
    assert (await studio.show(title_id))["tmdb_state"] == "waiting"


async def test_where_tmdb_cannot_be_asked_a_persons_word_is_taken(studio: CatalogueStudio) -> None:
    title_id = await studio.bring(title_japanese="a")
    studio.sandbox.faults("status", status=503, route="details")
    assert (await studio.catalogue.choose(title_id, 5))["tmdb_id"] == 5


async def test_a_title_that_is_not_there_cannot_be_chosen_for(studio: CatalogueStudio) -> None:
    for choose in (studio.catalogue.choose("0199c1f2-7a40-7cc3-98c4-dc0c0c07398f", None),
                   studio.catalogue.look_up_again("0199c1f2-7a40-7cc3-98c4-dc0c0c07398f")):  # fmt: skip
        with pytest.raises(NotFound):
            await choose


async def test_lists_are_asked_for_again_after_a_day_and_what_is_no_longer_in_them_is_forgotten(
    studio: CatalogueStudio,
) -> None:
    exact = studio.truth("exact")
    await studio.bring(**sought(exact))
    await studio.work()
    await studio.change("UPDATE tmdb_shows SET tmdb_id = tmdb_id + 1000000")
    studio.clock.advance(DAY + 1)
    other = await studio.bring(**sought(exact, bangumi_id=1))
    await studio.work()
    assert (await studio.show(other))["tmdb_id"] == exact["tmdb_id"]
    assert await studio.sql("SELECT count(*) FROM tmdb_shows WHERE tmdb_id > 1000000") == [(0,)]
