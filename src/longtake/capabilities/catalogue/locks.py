"""Rows of pictures and titles, locked: nobody removes or moves a picture while a title is pointed to it.

Whoever writes titles with posters, stores pictures or removes them, has the pictures' rows first: all at once, in order
of hash, and before any title; whoever writes at many titles what was found has theirs in order of id. So each sees what
the one before it wrote, and two of them do not deadlock; two exchanges that settle several kinds may, crosswise, and
then one of them is run again. SQLite has one writer at a time and needs none of it; there the locks are left out of the
statements.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from sqlalchemy import Row, select
from sqlalchemy.dialects import postgresql, sqlite

from longtake.capabilities.catalogue.tables import POSTER, posters
from longtake.db.dialects import NOW, SQLITE
from longtake.engine.control import cancel
from longtake.engine.tables import jobs

if TYPE_CHECKING:
    from longtake.db import Transaction


def lock_posters(tx: Transaction, names: Iterable[str]) -> dict[str, Row[Any]]:
    """Return those of the pictures that are there, as they are now and until we are done."""
    wanted = sorted(set(names))
    if not wanted:
        return {}
    rows = tx.execute(select(posters).where(posters.c.hash.in_(wanted)).order_by(posters.c.hash).with_for_update())
    return {row.hash: row for row in rows}


def lock_with_titles(tx: Transaction, names: Iterable[str]) -> None:
    """Lock pictures and then all titles that point to them; at the driver, since every download passes here."""
    if tx.dialect != SQLITE:
        wanted = [sorted(names)]
        tx.sql("SELECT FROM posters WHERE hash = ANY(%s) ORDER BY hash FOR UPDATE", wanted)
        tx.sql("SELECT FROM titles WHERE poster_hash = ANY(%s) ORDER BY id FOR UPDATE", wanted)


def lock_titles(tx: Transaction, title_ids: Iterable[str]) -> None:
    """Lock titles, all that will be written at once."""
    if tx.dialect != SQLITE:
        tx.sql("SELECT FROM titles WHERE id = ANY(%s::uuid[]) ORDER BY id FOR UPDATE", [list(title_ids)])


def make_posters(tx: Transaction, urls: Mapping[str, str], also: Iterable[str]) -> dict[str, Row[Any]]:
    """Make a row for every picture that has none; return all of them and what there is of ``also``, locked."""
    also, first = set(also), {"version": 0, "failures": 0, "due_at": NOW, "created_at": NOW}
    insert = (sqlite if tx.dialect == SQLITE else postgresql).insert(posters)
    while True:
        if urls:
            rows = [{"hash": name, "url": urls[name]} for name in sorted(urls)]
            tx.execute(insert.values(**first).on_conflict_do_nothing(), rows)
        there = lock_posters(tx, {*urls, *also})
        # One that was there may be gone by the time its lock is ours: then it is made anew.
        if urls.keys() <= there.keys():
            return there


def cancel_downloads(tx: Transaction, names: Sequence[str]) -> None:
    """Cancel the downloads of pictures that are locked and about to go.

    One that is just being settled waits for our lock, so we must not wait for it; it finds nothing to write.
    """
    about = (jobs.c.kind == POSTER, jobs.c.subject.in_(names))
    free = select(jobs.c.id).where(*about).order_by(jobs.c.id).with_for_update(skip_locked=True)
    for job_id in tx.execute(free).scalars().all():
        cancel(tx, job_id, "its poster is no longer used")
