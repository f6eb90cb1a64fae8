"""What a person decides about a title: which show of TMDB it is, that it is none, or that nobody decided."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sqlalchemy import update

from longtake.capabilities.catalogue.queries import get_title
from longtake.capabilities.catalogue.tables import SEARCH, titles
from longtake.capabilities.catalogue.title_errors import without_trouble
from longtake.capabilities.catalogue.titles import request_sync
from longtake.db.dialects import NOW
from longtake.engine.control import cancel_of_subject

if TYPE_CHECKING:
    from sqlalchemy import Row

    from longtake.db import Transaction
    from longtake.engine.engine import Engine


def choose_show(tx: Transaction, title_id: str, tmdb_id: int | None) -> Row[Any]:
    """Write a person's choice, which nothing overwrites; None says that TMDB does not have the title."""
    get_title(tx, title_id)
    cancel_of_subject(tx, title_id, (SEARCH,), "a person has chosen")
    chosen = {"tmdb_id": tmdb_id, "tmdb_found_by": "person", "tmdb_candidates": None, "tmdb_due_at": None}
    _change(tx, title_id, **chosen, **without_trouble("tmdb"))
    return get_title(tx, title_id)


def choose_nothing(tx: Transaction, engine: Engine, title_id: str, request_id: str | None) -> Row[Any]:
    """Take a choice back: the title is looked up again, at once."""
    row = get_title(tx, title_id)
    due = {"tmdb_due_at": NOW if row.title_japanese else None}
    _change(tx, title_id, tmdb_id=None, tmdb_found_by=None, tmdb_candidates=None, tmdb_looked_up_at=None, **due)
    request_sync(tx, engine, request_id)
    return get_title(tx, title_id)


def _change(tx: Transaction, title_id: str, **change: Any) -> None:
    tx.execute(update(titles).where(titles.c.id == title_id).values(**change, updated_at=NOW))
