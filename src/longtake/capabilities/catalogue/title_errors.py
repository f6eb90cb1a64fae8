"""The last error of a title: of its poster, of its look-up at TMDB, or of asking Bangumi about it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from sqlalchemy import ColumnElement, case, or_, select, update

from longtake.capabilities.catalogue.tables import titles
from longtake.db.dialects import NOW

if TYPE_CHECKING:
    from longtake.db import Transaction

ErrorSource = Literal["poster", "tmdb", "bangumi"]
NO_ERROR = dict.fromkeys(("error_code", "error", "error_at", "error_of"))


def record_error(tx: Transaction, which: ColumnElement[bool], of: ErrorSource, code: str, message: str) -> None:
    """Write at the titles what went wrong."""
    tx.execute(update(titles).where(which).values(error_of=of, error_code=code, error=message, error_at=NOW))


def record_new_error(tx: Transaction, which: ColumnElement[bool], of: ErrorSource, code: str, message: str) -> None:
    """Write the error at those titles that do not have it yet: every try may concern thousands.

    Titles locked by another transaction are skipped. Nothing depends on the error, so nothing waits for it.
    """
    new = or_(titles.c.error_of.is_distinct_from(of), titles.c.error_code != code, titles.c.error != message)
    free = select(titles.c.id).where(which, new).with_for_update(skip_locked=True)
    record_error(tx, titles.c.id.in_(free), of, code, message)


def clear_error(tx: Transaction, which: ColumnElement[bool], of: ErrorSource) -> None:
    """Clear errors of this source at the titles."""
    tx.execute(update(titles).where(which, titles.c.error_of == of).values(NO_ERROR))


def cleared_error(of: ErrorSource) -> dict[str, Any]:
    """Return column values that clear an error of this source and keep one of another."""
    return {name: case((titles.c.error_of == of, None), else_=titles.c[name]) for name in NO_ERROR}
