"""One statement for many rows, written once in Core.

On PostgreSQL the rows go along as an array for each column: one plan, one step and one round trip for all of them, at a
third of the cost. SQLite has neither arrays nor round trips; there the statement is run row by row. An UPDATE of many
rows locks them in any order, so a caller that may meet others locks the rows first, in their order.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from sqlalchemy import ARRAY, ColumnElement, Executable, bindparam, column, func

from longtake.db.dialects import POSTGRESQL, SQLITE

if TYPE_CHECKING:
    from sqlalchemy.types import TypeEngine

    from longtake.db.database import Transaction

#: The row's columns, by name.
Given = Mapping[str, ColumnElement[Any]]


class ForMany:
    """Takes a function that makes the statement of the columns of a row and of the database's name."""

    def __init__(self, make: Callable[[Given, str], Executable], **columns: TypeEngine[Any]) -> None:
        self._names = tuple(columns)
        self._one = make({name: bindparam(f"given_{name}", type_=kind) for name, kind in columns.items()}, SQLITE)
        arrays = (bindparam(f"given_{name}", type_=ARRAY(kind)) for name, kind in columns.items())
        rows = func.unnest(*arrays).table_valued(*(column(name, kind) for name, kind in columns.items()), name="given")
        self._all = make(dict(rows.render_derived().c.items()), POSTGRESQL)

    def run(self, tx: Transaction, rows: Sequence[Mapping[str, Any]]) -> None:
        """Run the statement for all of the rows."""
        if not rows:
            return
        if tx.dialect == SQLITE:
            tx.execute(self._one, [{f"given_{name}": row[name] for name in self._names} for row in rows])
        else:
            tx.execute(self._all, {f"given_{name}": [row[name] for row in rows] for name in self._names})
