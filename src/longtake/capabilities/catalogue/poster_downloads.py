"""Posters that somebody asks for by address: the title gets it, and it is fetched before any sync comes by."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sqlalchemy import select, update

from longtake.capabilities.catalogue.locks import lock_titles
from longtake.capabilities.catalogue.new_titles import NewTitle, check_title
from longtake.capabilities.catalogue.poster_urls import PosterHosts, is_local
from longtake.capabilities.catalogue.removal import remove_unused_posters
from longtake.capabilities.catalogue.tables import POSTER, posters, titles
from longtake.capabilities.catalogue.title_errors import without_trouble
from longtake.capabilities.catalogue.titles import picture_of, poster_rows
from longtake.db.dialects import NOW
from longtake.engine.control import hurry
from longtake.engine.jobs import JobRequest, Priority
from longtake.errors import LongtakeError, NotFound

if TYPE_CHECKING:
    from longtake.db import Transaction
    from longtake.engine.engine import Engine


@dataclass(frozen=True, slots=True)
class Download:
    """What became of a wish: whether a download was begun for it, or why it was refused."""

    title_id: str
    queued: bool = False
    refused: LongtakeError | None = None


def download_posters(
    tx: Transaction, engine: Engine, hosts: PosterHosts, wanted: Sequence[tuple[str, str]], request_id: str | None
) -> list[Download]:
    """Point titles to these posters and have those fetched that are not ours; the good ones go in."""
    known = select(titles.c.id, titles.c.poster_hash).where(titles.c.id.in_([one for one, _ in wanted]))
    there = {str(row.id): row.poster_hash for row in tx.execute(known)}
    checked = [_checked(title_id, url, title_id in there) for title_id, url in wanted]
    good = [one for one in checked if isinstance(one, NewTitle)]
    before = set(there.values()) - {None}
    pictures = poster_rows(tx, hosts, good, before)
    lock_titles(tx, there)
    results: list[Download] = []
    for (title_id, _url), one in zip(wanted, checked, strict=True):
        if not isinstance(one, NewTitle):
            results.append(Download(title_id, refused=one))
            continue
        picture = picture_of(one, pictures)
        new = {**picture, **without_trouble("poster"), "updated_at": NOW}
        tx.execute(update(titles).where(titles.c.id == title_id).values(new))
        missing = not is_local(str(picture["poster_url"]))
        if missing:
            job = {"key": picture["poster_hash"], "subject": picture["poster_hash"], "request_id": request_id}
            tx.execute(update(posters).where(posters.c.hash == picture["poster_hash"]).values(due_at=NOW))
            engine.enqueue_many(tx, [JobRequest(POSTER, priority=Priority.HIGH, **job)])
            hurry(tx, POSTER, [picture["poster_hash"]])
        results.append(Download(title_id, queued=missing))
    remove_unused_posters(tx, engine, before)
    return results


def _checked(title_id: str, url: str, there: bool) -> NewTitle | LongtakeError:  # noqa: FBT001
    if not there:
        return NotFound(f"There is no title {title_id!r}.", hint="`longtake catalogue list` shows those there are.")
    try:
        # The name stands for the title, which has one.
        return check_title({"title_english": title_id, "poster": url})
    except LongtakeError as error:
        return error
