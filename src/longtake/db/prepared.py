"""Core statements compiled once for each database and run at the driver: for the hot paths where Core's cost shows.

Building and caching a Core statement takes ten times as long as running it. A statement that is prepared is written in
Core, once for both databases, with ``bindparam`` for every value; what is left for each run is the driver's work.
"""

from collections import namedtuple
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import ARRAY, ColumnElement, Executable, Float, Numeric, bindparam, column, func
from sqlalchemy.engine import Dialect
from sqlalchemy.types import TypeEngine

from longtake.db.database import Transaction
from longtake.db.dialects import POSTGRESQL, SQLITE

Processor = Callable[[Any], Any]
#: The row's columns, by name.
Given = Mapping[str, ColumnElement[Any]]


@dataclass(frozen=True, slots=True)
class _Form:
    """A statement as one driver takes it."""

    sql: str
    #: In the driver's order where it takes positions, else in any.
    names: tuple[str, ...]
    positional: bool
    #: Values that stand in the statement itself.
    constants: Mapping[str, Any]
    binds: Mapping[str, Processor]
    results: Sequence[tuple[int, Processor]]
    row: Callable[..., Any] | None

    def parameters(self, values: Mapping[str, Any]) -> Sequence[Any] | Mapping[str, Any]:
        given = {**self.constants, **values}
        for name, processor in self.binds.items():
            given[name] = processor(given[name])
        return [given[name] for name in self.names] if self.positional else {name: given[name] for name in self.names}

    def rows(self, found: Sequence[tuple[Any, ...]]) -> list[Any]:
        if self.row is None:
            return []
        rows = []
        for one in found:
            cells = list(one)
            for index, processor in self.results:
                cells[index] = processor(cells[index])
            rows.append(self.row(*cells))
        return rows


class Prepared:
    """A statement with its names: run by ``Transaction.run``."""

    def __init__(self, statement: Executable) -> None:
        self._statement = statement
        self._forms: dict[str, _Form] = {}

    def form(self, dialect: Dialect) -> _Form:
        known = self._forms.get(dialect.name)
        if known is None:
            known = self._forms[dialect.name] = _compile(self._statement, dialect)
        return known


def _compile(statement: Any, dialect: Dialect) -> _Form:
    compiled = statement.compile(dialect=dialect)
    named = compiled.bind_names
    binds = {name: bind.type.dialect_impl(dialect).bind_processor(dialect) for bind, name in named.items()}
    columns = list(getattr(statement, "selected_columns", ()) or getattr(statement, "_returning", ()))
    processors = [_result_processor(column.type, dialect) for column in columns]
    names = [str(column.key) for column in columns]
    return _Form(
        sql=str(compiled),
        names=tuple(compiled.positiontup or named.values()),
        positional=bool(compiled.positiontup),
        constants={name: value for name, value in compiled.params.items() if value is not None},
        binds={name: processor for name, processor in binds.items() if processor is not None},
        results=[(index, one) for index, one in enumerate(processors) if one is not None],
        row=namedtuple("Row", names) if columns else None,  # noqa: PYI024 - its fields are known only now
    )


def _result_processor(kind: TypeEngine[Any], dialect: Dialect) -> Processor | None:
    # Both drivers give floats for floats; what SQLAlchemy would do depends on a code that only a result has.
    return None if isinstance(kind, Float | Numeric) else kind.dialect_impl(dialect).result_processor(dialect, None)


class ForMany:
    """One statement for many rows, made by a function of a row's columns and the database's name.

    On PostgreSQL the rows go along as an array for each column: one plan, one step and one round trip for all of them,
    at a third of the cost. SQLite has neither arrays nor round trips; there the statement is run row by row. An UPDATE
    of many rows locks them in any order, so a caller that may meet others locks the rows first, in their order.
    """

    def __init__(self, make: Callable[[Given, str], Executable], **columns: TypeEngine[Any]) -> None:
        self._names = tuple(columns)
        self._one = make({name: bindparam(f"given_{name}", type_=kind) for name, kind in columns.items()}, SQLITE)
        arrays = (bindparam(f"given_{name}", type_=ARRAY(kind)) for name, kind in columns.items())
        rows = func.unnest(*arrays).table_valued(*(column(name, kind) for name, kind in columns.items()), name="given")
        self._all = make(dict(rows.render_derived().c.items()), POSTGRESQL)

    def run(self, tx: Transaction, rows: Sequence[Mapping[str, Any]]) -> None:
        if not rows:
            return
        if tx.dialect == SQLITE:
            tx.execute(self._one, [{f"given_{name}": row[name] for name in self._names} for row in rows])
        else:
            tx.execute(self._all, {f"given_{name}": [row[name] for row in rows] for name in self._names})
