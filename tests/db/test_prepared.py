"""Prepared statements do what Core does: the same values in, the same values out, on both databases."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pytest
from sqlalchemy import Column, Double, MetaData, Table, Text, bindparam, insert, select, text

from longtake.clock import new_id
from longtake.db.dialects import NOW, Identifier, Instant, Json, later, seconds_until
from longtake.db.prepared import Prepared

if TYPE_CHECKING:
    from longtake import Database, Transaction

things = Table(
    "things",
    MetaData(),
    Column("id", Identifier),
    Column("name", Text),
    Column("data", Json),
    Column("weight", Double),
    Column("at", Instant),
)
GIVEN = ("id", "name", "data", "weight")
ADD = Prepared(
    insert(things)
    .values(**{name: bindparam(name) for name in GIVEN}, at=later(bindparam("seconds", type_=Double)))
    .returning(*things.columns)
)
FIND = Prepared(
    select(things.c.id, things.c.data, seconds_until(things.c.at).label("left")).where(
        things.c.name == bindparam("name"), things.c.weight > 0.5
    )
)


@pytest.fixture
def filled(database: Database) -> Database:
    def make(tx: Transaction) -> None:
        kinds = ("uuid", "jsonb", "timestamptz") if tx.dialect == "postgresql" else ("text", "text", "text")
        columns = "id {}, name text, data {}, weight double precision, at {}".format(*kinds)
        tx.execute(text(f"CREATE TABLE things ({columns})"))

    database.run_blocking(make)
    return database


def test_values_go_in_and_come_out_as_with_core(filled: Database) -> None:
    thing = new_id()

    def write(tx: Transaction) -> tuple[object, ...]:
        values = {"id": thing, "name": "a 'fox' % ?", "data": {"legs": [4, None]}, "weight": 1.5}
        [made] = tx.run(ADD, **values, seconds=60.0)
        plain = tx.execute(select(things)).one()
        assert tuple(made) == tuple(plain)
        assert (made.id, made.name, made.data, made.weight) == (thing, "a 'fox' % ?", {"legs": [4, None]}, 1.5)
        assert isinstance(made.at, datetime)
        assert made.at.tzinfo == UTC
        now = tx.execute(select(NOW)).scalar_one()
        assert (made.at - now).total_seconds() == pytest.approx(60)
        return tuple(tx.run(FIND, name="a 'fox' % ?"))

    [found] = filled.run_blocking(write)
    assert (found.id, found.data, round(found.left)) == (thing, {"legs": [4, None]}, 60)  # type: ignore[attr-defined]


def test_nothing_found_is_an_empty_list_and_null_stays_none(filled: Database) -> None:
    def write(tx: Transaction) -> None:
        assert tx.run(FIND, name="nobody") == []
        [made] = tx.run(ADD, id=new_id(), name=None, data=None, weight=None, seconds=0.0)
        assert (made.name, made.data, made.weight) == (None, None, None)

    filled.run_blocking(write)


def test_a_value_that_is_missing_is_a_mistake_and_not_null(filled: Database) -> None:
    with pytest.raises(KeyError, match="name"):
        filled.run_blocking(lambda tx: tx.run(FIND))
