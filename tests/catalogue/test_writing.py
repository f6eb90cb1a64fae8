"""Bringing titles in: new ones, what is new about those that are there, and the same again, which changes nothing."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import psycopg
import pytest
from sqlalchemy import text

from longtake import open_database
from longtake.capabilities.catalogue.new_titles import NewTitle
from longtake.capabilities.catalogue.tables import POSTER, SUBJECT, SYNC
from longtake.capabilities.catalogue.titles import WrittenTitle, request_sync, write_titles
from longtake.errors import LongtakeError
from tests.catalogue.stage import given
from tests.engine.stage import finish
from tests.outside import SQLITE

if TYPE_CHECKING:
    from longtake import Transaction
    from tests.catalogue.stage import CatalogueStudio
    from tests.databases import StoppedClock

NAMED = {"title_japanese": "けいおん!", "year": 2009}


async def everything(studio: CatalogueStudio) -> dict[str, list[tuple[Any, ...]]]:
    """Return every column of every row that titles consist of."""
    return {table: await studio.sql(f"SELECT * FROM {table} ORDER BY 1") for table in ("titles", "posters")}


async def test_a_title_is_created_then_unchanged_then_updated(studio: CatalogueStudio) -> None:
    first, written = await studio.catalogue.add({"bangumi_id": 7, **NAMED})
    assert written.result == "created"
    assert (first["title_japanese"], first["poster_state"], first["tmdb_state"]) == ("けいおん!", "none", "waiting")
    again, unchanged = await studio.catalogue.add({"bangumi_id": 7, **NAMED})
    assert (unchanged.id, unchanged.result, again) == (written.id, "unchanged", first)
    changed, updated = await studio.catalogue.add({"bangumi_id": 7, "title_english": "K-ON!"})
    assert (updated.id, updated.result) == (written.id, "updated")
    assert (changed["title_japanese"], changed["title_english"]) == ("けいおん!", "K-ON!")


async def test_the_same_again_changes_no_byte_of_any_row(studio: CatalogueStudio, clock: StoppedClock) -> None:
    titles = [given(one, title_english="words") for one in studio.sandbox.titles(limit=20)]
    await studio.catalogue.add_many(titles)
    await studio.work()
    before = await everything(studio)
    clock.advance(100)
    results = await studio.catalogue.add_many(titles)
    assert {one.result for one in results if isinstance(one, WrittenTitle)} == {"unchanged"}
    assert await everything(studio) == before
    assert await studio.jobs() == [], "nothing is to be done for what has not changed"


async def test_one_that_is_wrong_keeps_no_other_out(studio: CatalogueStudio) -> None:
    good, bad, also_good = await studio.catalogue.add_many([{"bangumi_id": 1}, {"year": 3}, {"bangumi_id": 2}])
    assert isinstance(good, WrittenTitle)
    assert isinstance(also_good, WrittenTitle)
    assert isinstance(bad, LongtakeError)
    assert bad.code == "TITLE_INVALID"
    assert await studio.sql("SELECT bangumi_id FROM titles ORDER BY 1") == [(1,), (2,)]
    assert await studio.catalogue.add_many([]) == []


async def test_the_same_title_twice_in_one_list_is_one_title(studio: CatalogueStudio) -> None:
    first, second = await studio.catalogue.add_many([{"bangumi_id": 1, **NAMED}, {"bangumi_id": 1, **NAMED}])
    assert isinstance(first, WrittenTitle)
    assert isinstance(second, WrittenTitle)
    assert first.id == second.id
    assert await studio.sql("SELECT count(*) FROM titles") == [(1,)]


async def test_of_one_bangumi_id_there_is_one_title_whoever_writes_it(studio: CatalogueStudio) -> None:
    title_id = await studio.bring(bangumi_id=7)
    copy = "INSERT INTO titles (id, identity, bangumi_id) SELECT :other, 'another', 7 FROM titles WHERE id = :it"
    with pytest.raises(Exception, match=r"(?i)unique"):
        await studio.change(copy, other="0199c1f2-7a40-7cc3-98c4-dc0c0c07398f", it=title_id)


async def test_a_title_without_bangumi_id_is_known_by_its_name_and_year(studio: CatalogueStudio) -> None:
    first = await studio.bring(title_japanese="けいおん\uff01", year=2009)
    assert await studio.bring(title_japanese="けい おん!", year=2009) == first
    assert await studio.bring(title_japanese="けいおん!", year=2010) != first


async def test_what_bangumi_says_overwrites_nothing_that_a_title_has(studio: CatalogueStudio) -> None:
    title_id = await studio.bring(bangumi_id=7, title_japanese="mine", poster="/posters/mine.jpg", tmdb_id=5)
    theirs = NewTitle(7, "theirs", "他们的", None, 1999, "https://lain.bgm.tv/pic/cover/l/x.jpg", 6)

    def write(tx: Transaction) -> list[Any]:
        return write_titles(tx, studio.engine, studio.catalogue.hosts, [theirs], only_missing=True)

    [written] = await studio.database.run(write)
    assert (written.id, written.result) == (title_id, "updated")
    title = await studio.show(title_id)
    assert (title["title_japanese"], title["title_chinese"], title["year"]) == ("mine", "他们的", 1999)
    assert (title["poster_url"], title["tmdb_id"], title["tmdb_found_by"]) == ("/posters/mine.jpg", 5, "import")
    [again] = await studio.database.run(write)
    assert again.result == "unchanged"
    assert await studio.database.read(lambda tx: tx.sql("SELECT * FROM posters")) == [], "no title took it"


async def test_an_id_that_somebody_brings_in_is_left_alone_by_look_ups(studio: CatalogueStudio) -> None:
    truth = studio.truth("exact")
    title_id = await studio.bring(**given(truth, poster=None, tmdb_id=99))
    await studio.sync()
    title = await studio.show(title_id)
    assert (title["tmdb_id"], title["tmdb_found_by"], title["tmdb_state"]) == (99, "import", "found")
    await studio.bring(**given(truth, poster=None))
    assert (await studio.show(title_id))["tmdb_id"] == 99
    assert studio.asked("discover", "search") == []
    await studio.bring(bangumi_id=truth["bangumi_id"], tmdb_id=100)
    assert (await studio.show(title_id))["tmdb_id"] == 100, "the later word counts"


@pytest.mark.parametrize("show", [True, False])
async def test_what_a_person_chose_is_not_overwritten_by_the_same_file_again(
    studio: CatalogueStudio, *, show: bool
) -> None:
    chosen = studio.truth("exact", 1)["tmdb_id"] if show else None
    file = [given(studio.truth("exact"), poster=None, tmdb_id=1)]
    title_id = await studio.bring(**file[0])
    await studio.catalogue.choose(title_id, chosen)
    await studio.work()
    before = await everything(studio)
    for tmdb_id in (1, 3):
        [again] = await studio.catalogue.add_many([file[0] | {"tmdb_id": tmdb_id}])
        assert isinstance(again, WrittenTitle)
        assert (again.id, again.result) == (title_id, "unchanged")
    assert await everything(studio) == before
    # The rest of what is said of it counts as ever.
    await studio.bring(**file[0] | {"title_english": "another name"})
    title = await studio.show(title_id)
    assert (title["title_english"], title["tmdb_id"], title["tmdb_found_by"]) == ("another name", chosen, "person")


async def test_an_id_that_was_found_is_kept_for_good_when_somebody_says_the_same(
    studio: CatalogueStudio,
) -> None:
    truth = studio.truth("exact")
    title_id = await studio.bring(**given(truth, poster=None))
    await studio.sync()
    assert (await studio.show(title_id))["tmdb_found_by"] == "title"
    await studio.bring(bangumi_id=truth["bangumi_id"], tmdb_id=truth["tmdb_id"])
    title = await studio.show(title_id)
    assert (title["tmdb_id"], title["tmdb_found_by"]) == (truth["tmdb_id"], "import")


async def test_another_name_makes_a_title_that_was_not_found_due_again(studio: CatalogueStudio) -> None:
    absent, exact = studio.truth("absent"), studio.truth("exact")
    title_id = await studio.bring(**given(absent, poster=None))
    await studio.sync()
    assert (await studio.show(title_id))["tmdb_state"] == "not_found"
    await studio.bring(bangumi_id=absent["bangumi_id"], title_japanese=exact["names"]["ja"], year=exact["year"])
    await studio.work()
    assert (await studio.show(title_id))["tmdb_id"] == exact["tmdb_id"]


async def test_another_poster_alone_makes_no_look_up_due(studio: CatalogueStudio) -> None:
    absent = studio.truth("absent")
    title_id = await studio.bring(**given(absent, poster=None))
    await studio.sync()
    before = (await studio.row(title_id))["tmdb_due_at"]
    await studio.bring(bangumi_id=absent["bangumi_id"], poster=absent["cover_url"])
    await studio.work()
    title = await studio.row(title_id)
    assert (title["tmdb_due_at"], title["poster_url"][:9]) == (before, "/posters/")


async def test_two_titles_with_one_poster_have_one_row_and_one_download_and_both_point_there(
    studio: CatalogueStudio,
) -> None:
    cover = studio.truth("exact")["cover_url"]
    reduced = cover.replace("/pic/", "/r/400/pic/")
    first = await studio.bring(bangumi_id=1, title_japanese="a", year=2000, poster=cover)
    second = await studio.bring(bangumi_id=2, title_japanese="b", year=2000, poster=reduced)
    ran = await studio.work()
    assert ran.count(POSTER) == 1
    assert len(studio.images()) == 1
    assert await studio.sql("SELECT count(*) FROM posters") == [(1,)]
    one, other = await studio.show(first), await studio.show(second)
    assert one["poster_url"] == other["poster_url"]
    assert one["poster_url"].startswith("/posters/")
    third = await studio.bring(bangumi_id=3, title_japanese="c", year=2000, poster=cover)
    assert (await studio.show(third))["poster_url"] == one["poster_url"], "it is ours already"


async def test_bangumi_is_asked_about_a_title_of_which_hardly_more_than_its_id_is_known(
    studio: CatalogueStudio,
) -> None:
    truth = studio.truth("exact")
    title_id = await studio.bring(bangumi_id=truth["bangumi_id"])
    assert SUBJECT in await studio.jobs()
    await studio.work()
    title = await studio.show(title_id)
    assert (title["title_japanese"], title["year"]) == (truth["names"]["ja"], truth["year"])
    assert (title["poster_state"], title["tmdb_id"]) == ("stored", truth["tmdb_id"])
    assert len(studio.asked("subject")) == 1


async def test_a_title_that_bangumi_does_not_know_says_so(studio: CatalogueStudio) -> None:
    title_id = await studio.bring(bangumi_id=5)
    await studio.work()
    error = (await studio.show(title_id))["error"]
    assert (error["of"], error["code"]) == ("bangumi", "NOT_FOUND")
    assert "5" in error["message"]


async def test_every_change_asks_for_a_sync_and_one_that_waits_is_enough(studio: CatalogueStudio) -> None:
    for number in (1, 2, 3):
        await studio.bring(title_japanese=f"number {number}", year=2000)
    assert await studio.jobs() == [SYNC]


async def test_five_who_bring_in_the_same_titles_at_once_make_each_once(
    studio: CatalogueStudio, database_url: str
) -> None:
    """Each on a connection of its own; the order differs, so that locks would be taken crosswise."""
    titles = [given(one) for one in studio.sandbox.titles(limit=60)]
    others = [open_database(database_url) for _ in range(4)] if not database_url.startswith(SQLITE) else []
    try:
        batches = [titles, titles[::-1], titles[30:] + titles[:30], titles[::2] + titles[1::2], titles[::-3] + titles]
        databases = [studio.database, *others] if others else [studio.database] * 5
        results = await asyncio.gather(
            *(
                database.run(_write, studio, [NewTitle(**one) for one in batch])
                for database, batch in zip(databases, batches, strict=True)
            )
        )
    finally:
        for one in others:
            one.close()
    made = [written.id for batch in results for written in batch if written.result == "created"]
    assert len(set(made)) == len(titles)
    assert await studio.sql("SELECT count(*), count(DISTINCT bangumi_id) FROM titles") == [(60, 60)]
    assert await studio.sql("SELECT count(*) FROM posters") == [(60,)]


def _write(tx: Transaction, studio: CatalogueStudio, new: list[NewTitle]) -> list[Any]:
    return write_titles(tx, studio.engine, studio.catalogue.hosts, new)


async def test_two_transactions_that_bring_in_the_same_title_make_one_of_it(
    studio: CatalogueStudio, database_url: str
) -> None:
    if database_url.startswith(SQLITE):
        pytest.skip("SQLite has one writer at a time")
    # Another has written the title and not yet ended.
    with psycopg.connect(database_url) as other:
        columns = "id, identity, bangumi_id, title_japanese"
        other.execute(f"INSERT INTO titles ({columns}) VALUES (gen_random_uuid(), 'bangumi:7', 7, 'a')".encode())
        ours = asyncio.create_task(studio.catalogue.add({"bangumi_id": 7, "title_chinese": "b"}))
        waiting = "SELECT count(*) FROM pg_locks WHERE NOT granted"
        while (await studio.sql(waiting))[0][0] == 0:
            assert not ours.done()
        other.commit()
    _title, written = await ours
    assert written.result == "updated"
    assert await studio.sql("SELECT title_japanese, title_chinese FROM titles") == [("a", "b")]


async def test_a_sync_that_is_about_to_end_is_not_taken_for_one_that_is_to_come(studio: CatalogueStudio) -> None:
    """Its walks may have passed what is written now: they are begun after this transaction."""
    await studio.catalogue.trigger_sync()
    [job] = await studio.claim_kind(SYNC)
    outcome = await studio.engine.kinds[SYNC].handler(job)
    title_id = await studio.bring(**given(studio.truth("exact")))
    assert await studio.sql("SELECT count(*) FROM jobs WHERE kind = 'catalogue.sync'") == [(1,)]
    assert await studio.database.run(_finish, studio, job, outcome)
    await studio.work()
    title = await studio.show(title_id)
    assert (title["poster_state"], title["tmdb_state"]) == ("stored", "found")


def _finish(tx: Transaction, studio: CatalogueStudio, job: Any, outcome: Any) -> bool:
    return finish(tx, studio.engine, job, outcome, studio.worker)


async def test_a_sync_that_is_asked_for_twice_in_one_transaction_is_one(studio: CatalogueStudio) -> None:
    def twice(tx: Transaction) -> set[str]:
        return {request_sync(tx, studio.engine), request_sync(tx, studio.engine)}

    assert len(await studio.database.run(twice)) == 1
    assert await studio.sql("SELECT count(*) FROM jobs") == [(1,)]


async def test_a_name_that_changes_its_mind_leaves_no_second_title(studio: CatalogueStudio) -> None:
    title_id = await studio.bring(bangumi_id=7, title_japanese="a", year=2000)
    assert await studio.bring(bangumi_id=7, title_japanese="b", year=2001) == title_id

    def count(tx: Transaction) -> Any:
        return tx.execute(text("SELECT count(*) FROM titles")).scalar_one()

    assert await studio.database.read(count) == 1
