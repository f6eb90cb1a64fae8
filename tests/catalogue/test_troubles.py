"""The last failure of a title: there while it is true, of whatever kind, and gone when it is over."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aiohttp import web

from longtake.capabilities.catalogue.tables import SUBJECT, YEAR
from tests.catalogue.stage import DAY, HOUR, given, picture

if TYPE_CHECKING:
    from tests.assets.stage import Source
    from tests.catalogue.stage import CatalogueStudio

UNAVAILABLE = "PROVIDER_UNAVAILABLE"


async def error_of(studio: CatalogueStudio, title_id: str) -> tuple[str, str] | None:
    error = (await studio.show(title_id))["error"]
    return None if error is None else (error["of"], error["code"])


# -- posters -----------------------------------------------------------------------------------------------------


async def test_a_poster_that_has_not_changed_is_no_longer_in_trouble(studio: CatalogueStudio) -> None:
    cover = studio.truth("exact")["cover_url"]
    ids = [await studio.bring(title_english=word, poster=cover) for word in ("a", "b")]
    await studio.work()
    studio.sandbox.faults("status", status=503, route="image", times=3)
    studio.clock.advance(9 * DAY)
    await studio.sync()
    assert [await error_of(studio, one) for one in ids] == [("poster", "POSTER_HTTP_STATUS")] * 2
    studio.clock.advance(2 * HOUR)
    await studio.sync()
    assert [call["status"] for call in studio.images()] == [200, 503, 503, 503, 304]
    assert [await error_of(studio, one) for one in ids] == [None, None]


async def test_a_poster_that_has_not_changed_leaves_other_trouble_alone(
    studio: CatalogueStudio, source: Source
) -> None:
    async def same(request: web.Request) -> web.StreamResponse:
        tag = {"ETag": '"1"'}
        unchanged = request.headers.get("If-None-Match") == '"1"'
        return web.Response(status=304, headers=tag) if unchanged else web.Response(body=picture(), headers=tag)

    source.files["/x.png"] = same
    title_id = await studio.bring(bangumi_id=5, poster=source.url + "/x.png")
    await studio.work()
    assert await error_of(studio, title_id) == ("bangumi", "NOT_FOUND")
    studio.clock.advance(9 * DAY)
    await studio.sync()
    assert len(source.requests) == 2
    assert await error_of(studio, title_id) == ("bangumi", "NOT_FOUND")


async def test_a_poster_of_another_address_has_not_the_trouble_of_the_one_before(studio: CatalogueStudio) -> None:
    cover = studio.truth("exact")["cover_url"]
    studio.sandbox.faults("status", status=503, route="image", times=9)
    ids = [await studio.bring(title_english=word, poster=f"{cover}?{word}") for word in ("a", "b", "c")]
    await studio.work()
    assert [await error_of(studio, one) for one in ids] == [("poster", "POSTER_HTTP_STATUS")] * 3
    # Nobody fetches what is ours, so nothing else would ever say that the trouble is over.
    await studio.bring(title_english="a", poster="/posters/0123456789abcdef.jpg")
    await studio.catalogue.download(ids[1], "/posters/0123456789abcdef.jpg")
    await studio.bring(title_english="c", poster=f"{cover}?c")
    assert [await error_of(studio, one) for one in ids] == [None, None, ("poster", "POSTER_HTTP_STATUS")]


# -- Bangumi -----------------------------------------------------------------------------------------------------


async def test_a_title_that_bangumi_does_not_know_is_well_once_somebody_completes_it(studio: CatalogueStudio) -> None:
    title_id = await studio.bring(bangumi_id=5, title_english="a")
    await studio.work()
    assert await error_of(studio, title_id) == ("bangumi", "NOT_FOUND")
    await studio.bring(bangumi_id=5, title_japanese="あ")
    assert await error_of(studio, title_id) == ("bangumi", "NOT_FOUND"), "its year is missing still"
    await studio.bring(bangumi_id=5, year=2000)
    assert await error_of(studio, title_id) is None


async def test_a_title_that_was_completed_before_bangumi_answered_does_not_hear_of_it(studio: CatalogueStudio) -> None:
    title_id = await studio.bring(bangumi_id=5)
    assert SUBJECT in await studio.jobs()
    await studio.bring(bangumi_id=5, title_japanese="あ", year=2000, tmdb_id=1)
    await studio.work()
    assert await error_of(studio, title_id) is None


async def test_a_title_says_that_bangumi_cannot_be_asked_and_is_well_when_it_answers(studio: CatalogueStudio) -> None:
    truth = studio.truth("exact")
    studio.sandbox.faults("status", status=503, route="subject", times=1)
    title_id = await studio.bring(bangumi_id=truth["bangumi_id"], tmdb_id=truth["tmdb_id"])
    other = await studio.bring(title_english="another")
    await studio.until_rest()
    assert await error_of(studio, title_id) == ("bangumi", UNAVAILABLE)
    assert await error_of(studio, other) is None
    await studio.work()
    title = await studio.show(title_id)
    assert (title["title_japanese"], title["error"]) == (truth["names"]["ja"], None)


# -- TMDB --------------------------------------------------------------------------------------------------------


async def test_titles_that_wait_for_the_list_of_a_year_say_why(studio: CatalogueStudio) -> None:
    truth = studio.truth("exact")
    year = truth["year"]
    title_id = await studio.bring(**given(truth, poster=None))
    beside = await studio.bring(title_japanese="となり", year=year + 1)
    far = await studio.bring(title_japanese="とおい", year=year + 3)
    chosen = await studio.bring(title_japanese="えらび", year=year, tmdb_id=1)
    rule = studio.sandbox.faults("status", status=503, route="discover", query_contains=f"first_air_date_year={year}")
    for _ in range(4):
        await studio.step()
        studio.clock.advance(0.25)
    assert studio.sandbox.applied(rule) >= 1
    assert await studio.wait_of(YEAR) != []
    assert [await error_of(studio, one) for one in (title_id, beside)] == [("tmdb", UNAVAILABLE)] * 2
    assert [await error_of(studio, one) for one in (far, chosen)] == [None, None]
    studio.sandbox.clear_faults()
    studio.clock.advance(60)
    await studio.work()
    assert [await error_of(studio, one) for one in (title_id, beside)] == [None, None]
    assert (await studio.show(title_id))["tmdb_id"] == truth["tmdb_id"]


async def test_a_title_whose_id_is_brought_in_is_no_longer_in_trouble_with_tmdb(studio: CatalogueStudio) -> None:
    title_id = await studio.bring(title_japanese="あ", year=2000)
    studio.sandbox.faults("status", status=503, route="discover")
    for _ in range(3):
        await studio.step()
    assert await error_of(studio, title_id) == ("tmdb", UNAVAILABLE)
    await studio.bring(title_japanese="あ", year=2000, title_english="a")
    assert await error_of(studio, title_id) == ("tmdb", UNAVAILABLE), "it is looked for still"
    await studio.bring(title_japanese="あ", year=2000, tmdb_id=1)
    assert await error_of(studio, title_id) is None


async def test_trouble_that_goes_on_is_written_once(studio: CatalogueStudio) -> None:
    title_id = await studio.bring(**given(studio.truth("exact"), poster=None))
    rule = studio.sandbox.faults("status", status=503, route="discover")
    for _ in range(3):
        await studio.step()
    first = (await studio.row(title_id))["error_at"]
    tries = studio.sandbox.applied(rule)
    assert first is not None
    studio.clock.advance(60)
    await studio.step()
    assert studio.sandbox.applied(rule) > tries
    assert (await studio.row(title_id))["error_at"] == first
