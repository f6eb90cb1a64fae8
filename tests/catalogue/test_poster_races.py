"""Titles that come, go and get their posters in the same moment: none points to a picture that is not there."""

from __future__ import annotations

import asyncio
import itertools
import threading
from typing import TYPE_CHECKING, Any

import pytest

from longtake.capabilities.catalogue.new_titles import NewTitle
from longtake.capabilities.catalogue.removal import remove_title
from longtake.capabilities.catalogue.tables import POSTER
from longtake.capabilities.catalogue.titles import write_titles
from tests.catalogue.stage import CatalogueStudio
from tests.engine.stage import finish
from tests.outside import SQLITE

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from longtake import Transaction

WAITS = "SELECT count(*) FROM pg_locks WHERE NOT granted"
#: Titles that point to a picture without a row, or to another file than the picture's row does.
ASTRAY = """
SELECT titles.title_english, titles.poster_url, posters.file FROM titles LEFT JOIN posters ON hash = poster_hash
WHERE poster_hash IS NOT NULL
  AND (hash IS NULL OR poster_url <> CASE WHEN file IS NULL THEN url ELSE '/posters/' || file END)
"""


@pytest.fixture(autouse=True)
def _several_writers(database_url: str) -> None:
    if database_url.startswith(SQLITE):
        pytest.skip("SQLite has one writer at a time")


def bring(tx: Transaction, studio: CatalogueStudio, *new: NewTitle) -> list[Any]:
    return write_titles(tx, studio.engine, studio.catalogue.hosts, new)


async def one_inside_the_other(
    studio: CatalogueStudio, first: Callable[[Transaction], object], second: Coroutine[Any, Any, Any]
) -> Any:
    """Do the first, and the second while the first is not committed; return what the second came to."""
    done, leave = threading.Event(), threading.Event()

    def do_and_wait(tx: Transaction) -> None:
        first(tx)
        done.set()
        assert leave.wait(20)

    outer = asyncio.create_task(studio.database.run(do_and_wait))
    assert await asyncio.to_thread(done.wait, 20)
    inner = asyncio.create_task(second)
    while (await studio.sql(WAITS))[0][0] == 0:
        if inner.done():
            break
    leave.set()
    await outer
    return await inner


async def assert_all_is_there(studio: CatalogueStudio, *title_ids: str) -> None:
    """Every title has its poster, or gets it; without a sync that somebody would have to ask for."""
    assert await studio.sql(ASTRAY) == []
    await studio.work()
    assert await studio.sql(ASTRAY) == []
    files = {f"/posters/{file}" for file in await studio.files()}
    for title_id in title_ids:
        title = await studio.show(title_id)
        assert {title["poster_url"], title["thumbnail_url"]} <= files


async def test_m2_a_poster_that_goes_while_another_title_gets_it_stays(studio: CatalogueStudio) -> None:
    cover = studio.truth("exact")["cover_url"]
    first = await studio.bring(title_english="first", poster=cover)
    await studio.work()
    second = NewTitle(title_english="second", poster=cover)
    await one_inside_the_other(studio, lambda tx: bring(tx, studio, second), studio.catalogue.delete(first))
    [(title_id,)] = await studio.sql("SELECT id FROM titles")
    await assert_all_is_there(studio, str(title_id))
    assert len(studio.images()) == 1


async def test_m2_a_poster_that_a_title_gets_while_it_goes_comes_again(studio: CatalogueStudio) -> None:
    cover = studio.truth("exact")["cover_url"]
    first = await studio.bring(title_english="first", poster=cover)
    await studio.work()
    second = studio.bring(title_english="second", poster=cover)
    title_id = await one_inside_the_other(studio, lambda tx: remove_title(tx, studio.engine, first), second)
    await assert_all_is_there(studio, title_id)


@pytest.mark.parametrize("title_comes_first", [True, False])
async def test_m2_a_title_that_comes_while_its_poster_is_stored_points_to_our_own(
    studio: CatalogueStudio, title_comes_first: bool
) -> None:
    cover = studio.truth("exact")["cover_url"]
    await studio.catalogue.download(await studio.bring(title_english="first"), cover)
    [job] = await studio.claim_kind(POSTER)
    outcome = await studio.engine.kinds[POSTER].handler(job)
    second = NewTitle(title_english="second", poster=cover)

    def write(tx: Transaction) -> list[Any]:
        return bring(tx, studio, second)

    def store(tx: Transaction) -> bool:
        return finish(tx, studio.engine, job, outcome, studio.worker)

    first, then = (write, store) if title_comes_first else (store, write)
    await one_inside_the_other(studio, first, studio.database.run(then))
    assert await studio.sql(ASTRAY) == []
    assert await studio.sql("SELECT count(*) FROM titles WHERE poster_url LIKE '/posters/%'") == [(2,)]


async def test_titles_that_change_their_posters_crosswise_do_not_wait_for_each_other(studio: CatalogueStudio) -> None:
    """A deadlock would be found by PostgreSQL and the function run again: so runs are counted."""
    covers = [one["cover_url"] for one in studio.sandbox.titles(limit=4)]
    words = ("a", "b", "c", "d")
    runs = itertools.count()

    def change(tx: Transaction, shift: int, order: int) -> None:
        next(runs)
        new = [NewTitle(title_english=one, poster=covers[(n + shift) % 4]) for n, one in enumerate(words)]
        bring(tx, studio, *new[::order])

    def remove(tx: Transaction, title_id: str) -> None:
        next(runs)
        remove_title(tx, studio.engine, title_id)

    rounds = 15
    for number in range(rounds):
        await studio.database.run(change, number, 1)
        going = await studio.bring(title_english="going", poster=covers[number % 4])
        await asyncio.gather(
            studio.database.run(change, number + 1, 1),
            studio.database.run(change, number + 2, -1),
            studio.database.run(remove, going),
            studio.database.run(change, number, -1),
        )
        assert await studio.sql(ASTRAY) == []
    assert next(runs) == rounds * 5
