"""Posters: fetched once, stored whole under the name of their address, and looked after when their source changes."""

from __future__ import annotations

import asyncio
import hashlib
from io import BytesIO
from typing import TYPE_CHECKING, Any

import pytest
from aiohttp import web
from PIL import Image

from longtake.capabilities.catalogue.poster_fetcher import poster_hash
from longtake.capabilities.catalogue.store import find_posters
from longtake.capabilities.catalogue.tables import POSTER, REMOVE, SYNC, SYNC_POSTERS
from tests.assets.stage import Source
from tests.catalogue.stage import DAY, HOUR, WEEK, CatalogueStudio, given, picture

if TYPE_CHECKING:
    from tests.databases import StoppedClock


async def with_poster(studio: CatalogueStudio, url: str, **more: Any) -> str:
    """Bring in a title that nobody looks up, with this poster."""
    return await studio.bring(title_english=f"of {url}", poster=url, **more)


async def test_a_poster_is_stored_under_the_hash_of_its_address_with_a_thumbnail(
    either_store: CatalogueStudio,
) -> None:
    """M2: posters."""
    studio = either_store
    cover = studio.truth("exact")["cover_url"]
    reduced = cover.replace("/pic/", "/r/400/pic/")
    title_id = await with_poster(studio, reduced)
    assert (await studio.show(title_id))["poster_url"] == cover, "its source, until it is ours"
    await studio.work()
    title, name = await studio.show(title_id), poster_hash(cover)
    assert (title["poster_state"], title["poster_source"], title["error"]) == ("stored", cover, None)
    assert title["poster_url"] == f"/posters/{name}.jpg"
    assert title["thumbnail_url"] == f"/posters/{name}-small.webp"
    assert await studio.files() == [f"{name}-small.webp", f"{name}.jpg"]
    body = await studio.body(f"{name}.jpg")
    row = await studio.poster(cover)
    assert (row["size"], row["checksum"]) == (len(body), hashlib.sha256(body).hexdigest())
    assert Image.open(BytesIO(body)).size == (row["width"], row["height"]) == (424, 600)
    small = Image.open(BytesIO(await studio.body(f"{name}-small.webp")))
    assert (small.format, small.size) == ("WEBP", (212, 300))
    assert [call["path"] for call in studio.images()] == [cover.removeprefix(studio.sandbox.url)]


async def test_a_stored_poster_is_not_fetched(studio: CatalogueStudio) -> None:
    """M2: posters."""
    title_id = await studio.bring(title_english="a", poster="/posters/my-own.jpg")
    ran = await studio.work()
    title = await studio.show(title_id)
    assert (title["poster_url"], title["poster_state"]) == ("/posters/my-own.jpg", "stored")
    assert POSTER not in ran
    assert studio.sandbox.calls() == []
    assert await studio.sql("SELECT count(*) FROM posters") == [(0,)]


@pytest.mark.parametrize(("form", "extension"), [("PNG", "png"), ("JPEG", "jpg"), ("WEBP", "webp"), ("GIF", "gif")])
async def test_the_ending_comes_from_what_the_picture_is_not_from_what_anybody_says(
    studio: CatalogueStudio, source: Source, form: str, extension: str
) -> None:
    source.files["/poster.jpg"] = picture(form)
    title_id = await with_poster(studio, source.url + "/poster.jpg")
    await studio.work()
    name = poster_hash(source.url + "/poster.jpg")
    assert (await studio.show(title_id))["poster_url"] == f"/posters/{name}.{extension}"
    assert await studio.body(f"{name}.{extension}") == source.files["/poster.jpg"]


@pytest.mark.parametrize(("form", "extension"), [("PNG", "png"), ("JPEG", "jpg"), ("WEBP", "webp"), ("GIF", "gif")])
async def test_an_existing_poster_is_used_without_a_request_whatever_its_extension(
    either_store: CatalogueStudio, form: str, extension: str
) -> None:
    """M2: posters."""
    studio = either_store
    cover = studio.truth("exact")["cover_url"]
    file, body = f"{poster_hash(cover)}.{extension}", picture(form)
    await studio.storage.put(f"posters/{file}", body, "image/png")
    title_id = await with_poster(studio, cover)
    await studio.work()
    assert studio.images() == []
    title = await studio.show(title_id)
    assert title["poster_url"] == f"/posters/{file}"
    assert await studio.body(file) == body
    assert (await studio.poster(cover))["checksum"] == hashlib.sha256(body).hexdigest()
    assert len(await studio.files()) == 2


@pytest.mark.parametrize(
    "body", [b"", b"<html>", picture("JPEG")[:-300], b"\xff\xd8\xff" + b"x" * 50], ids=["empty", "html", "cut", "noise"]
)
async def test_what_lies_there_and_is_no_whole_picture_is_replaced(either_store: CatalogueStudio, body: bytes) -> None:
    studio = either_store
    cover = studio.truth("exact")["cover_url"]
    file = f"{poster_hash(cover)}.jpg"
    await studio.storage.put(f"posters/{file}", body, "image/jpeg")
    title_id = await with_poster(studio, cover)
    await studio.work()
    assert (await studio.show(title_id))["poster_url"] == f"/posters/{file}"
    assert (await studio.poster(cover))["checksum"] == hashlib.sha256(await studio.body(file)).hexdigest()
    assert len(await studio.body(file)) > 1_000
    assert len(studio.images()) == 1


async def test_what_lies_there_and_is_far_too_large_is_replaced(studio: CatalogueStudio) -> None:
    cover = studio.truth("exact")["cover_url"]
    file = f"{poster_hash(cover)}.jpg"
    await studio.storage.put(f"posters/{file}", picture("JPEG") + b"\0" * 20_000_001, "image/jpeg")
    title_id = await with_poster(studio, cover)
    await studio.until_rest()
    title = await studio.show(title_id)
    assert (title["poster_state"], title["error"]) == ("stored", None)
    assert len(await studio.body(file)) < 1_000_000


async def test_the_next_worker_uses_the_poster_of_one_that_died_after_storing_it(either_store: CatalogueStudio) -> None:
    """M6: safe to repeat, resumed after a restart, stopped in order."""
    studio = either_store
    cover = studio.truth("exact")["cover_url"]
    title_id = await with_poster(studio, cover)
    await studio.step()
    await studio.step()
    [job] = await studio.claim_kind(POSTER)
    await studio.engine.kinds[POSTER].handler(job)  # and nobody hears of it
    before = await studio.files()
    assert len(before) == len(studio.images()) * 2 == 2
    outcome = await studio.engine.kinds[POSTER].handler(job)
    assert outcome.data.file == f"{poster_hash(cover)}.jpg"
    assert len(studio.images()) == 1, "it is found, not fetched again"
    assert await studio.files() == before
    assert (await studio.show(title_id))["poster_state"] == "remote"


# -- changes at the source ---------------------------------------------------------------------------------------


async def test_an_unchanged_source_is_checked_after_a_week_and_sends_nothing(
    studio: CatalogueStudio, clock: StoppedClock
) -> None:
    """M2: posters."""
    cover = studio.truth("exact")["cover_url"]
    title_id = await with_poster(studio, cover)
    await studio.work()
    before, files = await studio.row(title_id), await studio.files()
    clock.advance(7 * DAY - HOUR)
    await studio.sync()
    assert [call["status"] for call in studio.images()] == [200], "not before its time"
    clock.advance(DAY + HOUR)
    await studio.sync()
    assert [call["status"] for call in studio.images()] == [200, 304]
    assert (await studio.row(title_id), await studio.files()) == (before, files)
    row = await studio.poster(cover)
    assert (row["version"], row["failures"]) == (1, 0)
    await studio.sync()
    assert len(studio.images()) == 2, "and then not for another week"


async def test_a_source_that_has_changed_gives_a_new_version_which_titles_follow_and_the_old_file_goes_after_a_day(
    either_store: CatalogueStudio, clock: StoppedClock
) -> None:
    studio = either_store
    truth = studio.truth("exact", 3)
    cover, name = truth["cover_url"], poster_hash(truth["cover_url"])
    ids = [await studio.bring(title_english=word, poster=cover) for word in ("one", "two")]
    await studio.work()
    old = await studio.body(f"{name}.jpg")
    studio.sandbox.change_cover(truth["bangumi_id"], truth["cover"] + 1)
    clock.advance(8 * DAY)
    await studio.sync_and_leave()
    for title_id in ids:
        title = await studio.show(title_id)
        assert title["poster_url"] == f"/posters/{name}-2.jpg"
        assert title["thumbnail_url"] == f"/posters/{name}-2-small.webp"
    assert await studio.body(f"{name}-2.jpg") != old
    assert await studio.body(f"{name}.jpg") == old, "pages that were rendered before still show it"
    assert await studio.wait_of(REMOVE) == [pytest.approx(DAY, abs=5)]
    clock.advance(DAY)
    await studio.step()
    assert await studio.files() == [f"{name}-2-small.webp", f"{name}-2.jpg"]


async def test_a_source_that_knows_only_dates_is_asked_by_date(
    studio: CatalogueStudio, source: Source, clock: StoppedClock
) -> None:
    told: list[str | None] = []

    async def answer(request: web.Request) -> web.StreamResponse:
        told.append(request.headers.get("If-Modified-Since"))
        if told[-1] == "Thu, 01 Jan 2026 00:00:00 GMT":
            return web.Response(status=304)
        return web.Response(body=picture(), headers={"Last-Modified": "Thu, 01 Jan 2026 00:00:00 GMT"})

    source.files["/x.png"] = answer
    await with_poster(studio, source.url + "/x.png")
    await studio.work()
    clock.advance(8 * DAY)
    await studio.sync()
    assert told == [None, "Thu, 01 Jan 2026 00:00:00 GMT"]
    assert (await studio.poster(source.url + "/x.png"))["version"] == 1


async def test_the_same_bytes_once_more_are_the_same_version(
    studio: CatalogueStudio, source: Source, clock: StoppedClock
) -> None:
    source.files["/x.png"] = picture()
    title_id = await with_poster(studio, source.url + "/x.png")
    await studio.work()
    before, files = (await studio.show(title_id))["poster_url"], await studio.files()
    clock.advance(8 * DAY)
    await studio.sync()
    assert len(source.requests) == 2, "it knows neither ETag nor date"
    assert ((await studio.show(title_id))["poster_url"], await studio.files()) == (before, files)
    assert await studio.jobs() == [], "nothing is to be removed"


async def test_a_poster_that_we_have_stays_when_its_source_is_gone(
    studio: CatalogueStudio, source: Source, clock: StoppedClock
) -> None:
    source.files["/x.png"] = picture()
    title_id = await with_poster(studio, source.url + "/x.png")
    await studio.work()
    stored = (await studio.show(title_id))["poster_url"]
    del source.files["/x.png"]
    clock.advance(8 * DAY)
    await studio.sync()
    title = await studio.show(title_id)
    assert (title["poster_url"], title["poster_state"]) == (stored, "stored")
    assert (title["error"]["of"], title["error"]["code"]) == ("poster", "POSTER_HTTP_STATUS")
    source.files["/x.png"] = picture()
    clock.advance(WEEK)
    await studio.sync()
    assert (await studio.show(title_id))["error"] is None


async def test_posters_that_begin_together_are_one_question_to_the_database(
    studio: CatalogueStudio, monkeypatch: pytest.MonkeyPatch
) -> None:
    await studio.bring_all(studio.sandbox.titles(limit=5))
    await studio.run_only(SYNC)
    await studio.run_only(SYNC_POSTERS)
    claimed = await studio.claim_kind(POSTER)
    assert len(claimed) == 5
    asked: list[Any] = []
    read = studio.database.read

    async def counted(function: Any, *arguments: Any) -> Any:
        asked.append(function)
        return await read(function, *arguments)

    monkeypatch.setattr(studio.database, "read", counted)
    outcomes = await asyncio.gather(*(studio.engine.kinds[POSTER].handler(job) for job in claimed))
    assert asked == [find_posters]
    for job, outcome in zip(claimed, outcomes, strict=True):
        assert await studio.apply(job, outcome)
    assert len(await studio.files()) == 10


# -- by hand -----------------------------------------------------------------------------------------------------


async def test_a_requested_poster_is_fetched_without_a_sync(studio: CatalogueStudio) -> None:
    """M6: safe to repeat, resumed after a restart, stopped in order."""
    cover = studio.truth("exact")["cover_url"]
    title_id = await studio.bring(bangumi_id=1, title_japanese="a", year=2000, tmdb_id=1)
    await studio.work()
    title = await studio.catalogue.download(title_id, cover)
    assert (title["poster_url"], title["poster_state"]) == (cover, "remote")
    assert await studio.step() == [POSTER]
    assert (await studio.show(title_id))["poster_state"] == "stored"


async def test_a_batch_fetches_each_address_once_and_accepts_the_valid_ones(studio: CatalogueStudio) -> None:
    """M6: safe to repeat, resumed after a restart, stopped in order."""
    cover = studio.truth("exact")["cover_url"]
    ids = [await studio.bring(title_english=word) for word in ("a", "b", "c")]
    nothing = "0199c1f2-7a40-7cc3-98c4-dc0c0c07398f"
    wanted = [(ids[0], cover), (ids[1], cover), (ids[2], "ftp://x"), (nothing, cover), (ids[2], "/posters/own.jpg")]
    results = await studio.catalogue.download_batch(wanted)
    assert [one.queued for one in results] == [True, True, False, False, False]
    codes = [one.refused and one.refused.code for one in results]
    assert codes == [None, None, "POSTER_PATH_INVALID", "NOT_FOUND", None]
    await studio.work()
    assert len(studio.images()) == 1
    states = [(await studio.show(one))["poster_url"] for one in ids]
    name = poster_hash(cover)
    assert states == [f"/posters/{name}.jpg", f"/posters/{name}.jpg", "/posters/own.jpg"]
    [again] = await studio.catalogue.download_batch([(ids[2], cover)])
    assert (again.queued, again.refused) == (False, None), "it is ours already"


async def test_a_poster_that_rests_is_fetched_at_once_when_somebody_asks_for_it(
    studio: CatalogueStudio, source: Source
) -> None:
    url = source.url + "/x.png"
    title_id = await with_poster(studio, url)
    await studio.work()
    assert (await studio.show(title_id))["error"]["code"] == "POSTER_HTTP_STATUS"
    source.files["/x.png"] = picture()
    await studio.catalogue.download(title_id, url)
    assert POSTER in await studio.step()
    title = await studio.show(title_id)
    assert (title["poster_state"], title["error"]) == ("stored", None)


# -- titles that go ----------------------------------------------------------------------------------------------


async def test_a_deleted_title_takes_its_poster_with_it_unless_another_has_it(either_store: CatalogueStudio) -> None:
    studio = either_store
    cover = studio.truth("exact")["cover_url"]
    first, second = [await studio.bring(title_english=word, poster=cover) for word in ("a", "b")]
    await studio.work()
    await studio.catalogue.delete(first)
    await studio.work()
    assert len(await studio.files()) == 2
    await studio.catalogue.delete(second)
    await studio.work()
    assert await studio.files() == []
    assert await studio.sql("SELECT count(*) FROM posters") == [(0,)]


@pytest.mark.parametrize("way", ["bring", "download"])
async def test_a_poster_that_another_took_the_place_of_goes(studio: CatalogueStudio, way: str) -> None:
    before, after = studio.truth("exact")["cover_url"], studio.truth("year")["cover_url"]
    title_id = await studio.bring(title_english="a", poster=before)
    await studio.work()
    if way == "bring":
        assert await studio.bring(title_english="a", poster=after) == title_id
    else:
        await studio.catalogue.download(title_id, after)
    await studio.work()
    title = await studio.catalogue.show(title_id)
    assert title["poster_url"] in [f"/posters/{file}" for file in await studio.files()]
    assert len(await studio.files()) == 2
    assert await studio.sql("SELECT url FROM posters") == [(after,)]


async def test_a_poster_that_is_wanted_again_before_its_files_went_stays(studio: CatalogueStudio) -> None:
    cover = studio.truth("exact")["cover_url"]
    title_id = await studio.bring(title_english="a", poster=cover)
    await studio.work()
    await studio.catalogue.delete(title_id)
    again = await studio.bring(title_english="a", poster=cover)
    await studio.work()
    assert (await studio.show(again))["poster_state"] == "stored"
    assert len(await studio.files()) == 2
    assert len(studio.images()) == 1


async def test_a_title_that_goes_while_its_poster_is_on_its_way_leaves_nothing(studio: CatalogueStudio) -> None:
    title_id = await studio.bring(**given(studio.truth("exact"), tmdb_id=1))
    await studio.step()
    await studio.step()
    assert POSTER in await studio.jobs()
    await studio.catalogue.delete(title_id)
    await studio.work()
    assert await studio.files() == []
    assert studio.images() == []
