"""The last failure of a title: of its poster, of its look-up at TMDB, or of asking Bangumi about it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from sqlalchemy import ColumnElement, case, or_, select, update

from longtake.capabilities.catalogue.tables import titles
from longtake.db.dialects import NOW

if TYPE_CHECKING:
    from longtake.db import Transaction

Of = Literal["poster", "tmdb", "bangumi"]
NO_TROUBLE = dict.fromkeys(("error_code", "error", "error_at", "error_of"))


def note_trouble(tx: Transaction, which: ColumnElement[bool], of: Of, code: str, message: str) -> None:
    """Write at the titles what went wrong."""
    tx.execute(update(titles).where(which).values(error_of=of, error_code=code, error=message, error_at=NOW))


def note_trouble_of_many(tx: Transaction, which: ColumnElement[bool], of: Of, code: str, message: str) -> None:
    """Write at the titles what they wait for, unless they say so already: there may be thousands, at every try.

    Those that another transaction has in hand are left out. Nothing depends on it, and nobody waits for anybody.
    """
    new = or_(titles.c.error_of.is_distinct_from(of), titles.c.error_code != code, titles.c.error != message)
    free = select(titles.c.id).where(which, new).with_for_update(skip_locked=True)
    note_trouble(tx, titles.c.id.in_(free), of, code, message)


def clear_trouble(tx: Transaction, which: ColumnElement[bool], of: Of) -> None:
    """Write at the titles that a failure of this is over."""
    tx.execute(update(titles).where(which, titles.c.error_of == of).values(NO_TROUBLE))


def without_trouble(of: Of) -> dict[str, Any]:
    """Return the values that clear a failure of this, and leave one of something else alone."""
    return {name: case((titles.c.error_of == of, None), else_=titles.c[name]) for name in NO_TROUBLE}
