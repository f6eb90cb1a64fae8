"""The last failure of a title: of its poster, of its look-up at TMDB, or of asking Bangumi about it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from sqlalchemy import ColumnElement, case, update

from longtake.catalogue.tables import titles
from longtake.db.dialects import NOW

if TYPE_CHECKING:
    from longtake.db import Transaction

Of = Literal["poster", "tmdb", "bangumi"]
_COLUMNS = ("error_code", "error", "error_at", "error_of")


def note_trouble(tx: Transaction, which: ColumnElement[bool], of: Of, code: str, message: str) -> None:
    """Write at the titles what went wrong."""
    tx.execute(update(titles).where(which).values(error_of=of, error_code=code, error=message, error_at=NOW))


def without_trouble(of: Of) -> dict[str, Any]:
    """Return the values that clear a failure of this, and leave one of something else alone."""
    return {name: case((titles.c.error_of == of, None), else_=titles.c[name]) for name in _COLUMNS}
