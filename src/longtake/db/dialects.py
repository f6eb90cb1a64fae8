"""All that differs between SQLite and PostgreSQL in types and expressions.

Times are ``timestamptz`` on PostgreSQL and fixed-width UTC text on SQLite (readable in any SQL shell, sorts as it
should). ``longtake_now()`` is the time in SQL on both: PostgreSQL's ``now()``, and on SQLite the time at which the
transaction function began. So the database's clock decides, never a worker's.
"""

from datetime import UTC, datetime
from typing import Any

import orjson
from sqlalchemy import DateTime, Dialect, Float, String, Text, TypeDecorator, Uuid, literal_column
from sqlalchemy.dialects.postgresql import JSONB
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.compiler import SQLCompiler
from sqlalchemy.sql.functions import FunctionElement
from sqlalchemy.types import TypeEngine

POSTGRESQL = "postgresql"
SQLITE = "sqlite"


def instant_to_text(moment: datetime) -> str:
    """Write a time the way SQLite rows hold it: always 26 characters, so that text order is time order."""
    return moment.astimezone(UTC).replace(tzinfo=None).isoformat(" ", "microseconds")


def text_to_instant(text: str) -> datetime:
    """Read a time from a SQLite row; an outside program may have left the fraction out."""
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


class Instant(TypeDecorator[datetime]):
    """A moment, always with its zone in Python, always UTC in the database."""

    impl = DateTime
    cache_ok = True

    def load_dialect_impl(self, dialect: Dialect) -> TypeEngine[Any]:
        return dialect.type_descriptor(String(26) if dialect.name == SQLITE else DateTime(timezone=True))

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> Any:
        return instant_to_text(value) if value is not None and dialect.name == SQLITE else value

    def process_result_value(self, value: Any, dialect: Dialect) -> datetime | None:
        return text_to_instant(value) if value is not None and dialect.name == SQLITE else value


class Json(TypeDecorator[Any]):
    """A JSON document: jsonb on PostgreSQL, text on SQLite."""

    impl = Text
    cache_ok = True

    def load_dialect_impl(self, dialect: Dialect) -> TypeEngine[Any]:
        return dialect.type_descriptor(Text() if dialect.name == SQLITE else JSONB(none_as_null=True))

    def process_bind_param(self, value: Any, dialect: Dialect) -> Any:
        return orjson.dumps(value).decode() if value is not None and dialect.name == SQLITE else value

    def process_result_value(self, value: Any, dialect: Dialect) -> Any:
        return orjson.loads(value) if value is not None and dialect.name == SQLITE else value


class Identifier(TypeDecorator[str]):
    """A UUID, text in Python: uuid on PostgreSQL, text on SQLite."""

    impl = Text
    cache_ok = True

    def load_dialect_impl(self, dialect: Dialect) -> TypeEngine[Any]:
        return dialect.type_descriptor(String(36) if dialect.name == SQLITE else Uuid(as_uuid=False))


NOW = literal_column("longtake_now()", Instant)


class later(FunctionElement[datetime]):  # noqa: N801 - reads as the SQL function it is
    """``longtake_now()`` plus a number of seconds."""

    type = Instant()
    inherit_cache = True


class seconds_until(FunctionElement[float]):  # noqa: N801
    """How many seconds from ``longtake_now()`` to a time: negative when it is past."""

    type = Float()
    inherit_cache = True


class seconds_between(FunctionElement[float]):  # noqa: N801
    """How many seconds from one time to another, for statements that reckon with many rows."""

    type = Float()
    inherit_cache = True


class transaction_age(FunctionElement[float]):  # noqa: N801
    """For how many seconds the transaction has been open: by so much ``longtake_now()`` is behind."""

    type = Float()
    inherit_cache = True


#: Each expression as the databases write it; the braces stand for its arguments.
SPELLINGS: dict[type[FunctionElement[Any]], dict[str, str]] = {
    later: {SQLITE: "later({})", POSTGRESQL: "(longtake_now() + make_interval(secs => {}))"},
    seconds_until: {
        SQLITE: "seconds_until({})",
        POSTGRESQL: "extract(epoch FROM ({}) - longtake_now())::double precision",
    },
    seconds_between: {
        # SQLite's own function: one of ours, in Python, costs ten times as much a row.
        SQLITE: "((julianday({1}) - julianday({0})) * 86400.0)",
        POSTGRESQL: "extract(epoch FROM ({1}) - ({0}))::double precision",
    },
    transaction_age: {
        # One process, one writer: no other transaction ran in between.
        SQLITE: "0.0",
        POSTGRESQL: "extract(epoch FROM clock_timestamp() - transaction_timestamp())::double precision",
    },
}


def _spell(element: FunctionElement[Any], compiler: SQLCompiler, **options: Any) -> str:
    arguments = [compiler.process(clause, **options) for clause in element.clauses]
    return SPELLINGS[type(element)][compiler.dialect.name].format(*arguments)


for _expression in SPELLINGS:
    compiles(_expression)(_spell)
