"""Titles that come, go and get their posters in the same moment: none points to a picture that is not there."""

from __future__ import annotations

import asyncio
import itertools
import random
import threading
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from longtake import Done, Retry, Worker
from longtake.capabilities.catalogue.new_titles import NewTitle
from longtake.capabilities.catalogue.poster_fetcher import poster_hash
from longtake.capabilities.catalogue.search import SearchResult
from longtake.capabilities.catalogue.tables import POSTER, SEARCH, SYNC, SYNC_POSTERS
from longtake.capabilities.catalogue.titles import remove_title, write_titles
from longtake.engine.outcomes import judge
from tests.catalogue.stage import CatalogueStudio
from tests.crossing import ending, ending_all, meet
from tests.engine.stage import finish
from tests.outside import SQLITE
from tests.wait import PATIENCE_SECONDS

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Sequence

    from longtake import Engine, Job, Outcome, Settlement, Transaction

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


async def test_a_poster_stays_if_another_title_gets_it_meanwhile(studio: CatalogueStudio) -> None:
    """M2: posters."""
    cover = studio.truth("exact")["cover_url"]
    first = await studio.bring(title_english="first", poster=cover)
    await studio.work()
    second = NewTitle(title_english="second", poster=cover)
    await one_inside_the_other(studio, lambda tx: bring(tx, studio, second), studio.catalogue.delete(first))
    [(title_id,)] = await studio.sql("SELECT id FROM titles")
    await assert_all_is_there(studio, str(title_id))
    assert len(studio.images()) == 1


async def test_a_poster_is_fetched_again_if_a_title_gets_it_during_its_deletion(studio: CatalogueStudio) -> None:
    """M2: posters."""
    cover = studio.truth("exact")["cover_url"]
    first = await studio.bring(title_english="first", poster=cover)
    await studio.work()
    second = studio.bring(title_english="second", poster=cover)
    title_id = await one_inside_the_other(studio, lambda tx: remove_title(tx, studio.engine, first), second)
    await assert_all_is_there(studio, title_id)


@pytest.mark.parametrize("title_comes_first", [True, False])
async def test_a_title_added_while_its_poster_is_stored_points_to_the_stored_poster(
    studio: CatalogueStudio, title_comes_first: bool
) -> None:
    """M2: posters."""
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


async def test_a_poster_that_is_asked_for_while_its_download_ends_waits_for_no_job(
    studio: CatalogueStudio, deadlocks: list[BaseException]
) -> None:
    """The download has written its job and wants the poster's row, which the request holds."""
    cover = studio.truth("exact")["cover_url"]
    first, second = await studio.bring(title_english="first"), await studio.bring(title_english="second")
    await studio.catalogue.download(first, cover)
    [job] = await studio.claim_kind(POSTER)
    outcome = await studio.engine.kinds[POSTER].handler(job)

    await meet(studio.database, ending(studio.engine, job, outcome), lambda: studio.catalogue.download(second, cover))
    assert deadlocks == []
    await assert_all_is_there(studio, first, second)


async def test_a_title_that_comes_while_a_sync_ends_waits_for_no_job(
    studio: CatalogueStudio, deadlocks: list[BaseException]
) -> None:
    """A worker has ended the sync, and wants a poster's row for a download that ended with it."""
    cover = studio.truth("exact")["cover_url"]
    first = await studio.bring(title_english="first")
    await studio.work()
    await studio.catalogue.download(first, cover)
    await studio.catalogue.trigger_sync()
    [download], [sync] = await studio.claim_kind(POSTER), await studio.claim_kind(SYNC)
    outcomes = [(job, await studio.engine.kinds[job.kind].handler(job)) for job in (download, sync)]
    verdicts = [
        judge(studio.engine.kinds[job.kind], job, one, job.lease_token, random.Random(1)) for job, one in outcomes
    ]

    _ended, second = await meet(
        studio.database,
        ending_all(studio.engine, verdicts, POSTER),
        lambda: studio.bring(title_english="second", poster=cover),
    )
    assert deadlocks == []
    await assert_all_is_there(studio, first, second)


async def test_workers_that_settle_posters_and_searches_crosswise_do_not_wait_for_each_other(
    studio: CatalogueStudio, deadlocks: list[BaseException]
) -> None:
    covers = [one["cover_url"] for one in studio.sandbox.titles(limit=2)]
    title_ids = [await studio.bring(title_english=str(number), poster=cover) for number, cover in enumerate(covers)]
    await studio.run_only(SYNC)
    await studio.run_only(SYNC_POSTERS)
    downloads = {str(job.key): job for job in await studio.claim_kind(POSTER)}

    def enqueue(tx: Transaction) -> None:
        for title_id in title_ids:
            studio.engine.enqueue(tx, SEARCH, key=title_id, subject=title_id)

    await studio.database.run(enqueue)
    searches = {str(job.key): job for job in await studio.claim_kind(SEARCH)}
    both_are_there = threading.Barrier(2, timeout=PATIENCE_SECONDS)
    met: set[str] = set()
    usual = studio.engine.kinds[SEARCH]

    def settle(tx: Transaction, engine: Engine, settlements: Sequence[Settlement]) -> None:
        [one] = settlements
        if one.job.id not in met:
            met.add(one.job.id)
            both_are_there.wait()
        assert usual.settle is not None
        usual.settle(tx, engine, settlements)

    studio.engine.kinds[SEARCH] = replace(usual, settle=settle)

    def exchange(cover: str, title_id: str) -> Coroutine[Any, Any, Any]:
        outcomes: list[tuple[Job, Outcome]] = [
            (downloads[poster_hash(cover)], Retry("LATER", "not now")),
            (searches[title_id], Done(data=SearchResult(7, []))),
        ]
        verdicts = [
            judge(studio.engine.kinds[job.kind], job, one, job.lease_token, random.Random(1)) for job, one in outcomes
        ]
        return Worker(studio.engine).completer.exchange(verdicts, (), 0)

    await asyncio.gather(exchange(covers[0], title_ids[1]), exchange(covers[1], title_ids[0]))
    assert deadlocks == []
    assert await studio.sql("SELECT tmdb_id, error_code FROM titles") == [(7, "LATER"), (7, "LATER")]
