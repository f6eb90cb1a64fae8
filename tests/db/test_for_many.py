"""One statement for many rows: the same rows come of it on both databases."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sqlalchemy import Column as Col
from sqlalchemy import Float, Integer, MetaData, Table, Text, Update, select, text, update

from longtake.db.dialects import NOW, Identifier, Instant
from longtake.db.prepared import ForMany, Given

if TYPE_CHECKING:
    from longtake import Database, Transaction

things = Table(
    "things",
    MetaData(),
    Col("id", Identifier, primary_key=True),
    Col("name", Text),
    Col("number", Integer),
    Col("share", Float),
    Col("changed_at", Instant),
)
IDS = [f"00000000-0000-7000-8000-{number:012d}" for number in range(4)]


def rename(given: Given, _dialect: str) -> Update:
    change = update(things).where(things.c.id == given["id"])
    return change.values(name=given["name"], number=given["number"], share=given["share"], changed_at=NOW)


RENAME = ForMany(rename, id=Identifier(), name=Text(), number=Integer(), share=Float())


def make(tx: Transaction) -> None:
    kinds = ("uuid", "timestamptz") if tx.dialect == "postgresql" else ("text", "text")
    columns = f"id {kinds[0]} PRIMARY KEY, name text, number integer, share float, changed_at {kinds[1]}"
    tx.execute(text(f"CREATE TABLE things ({columns})"))
    tx.execute(things.insert(), [{"id": one, "name": "old", "number": 0, "share": 0.0} for one in IDS])


def read(tx: Transaction) -> list[tuple[Any, ...]]:
    columns = (things.c.name, things.c.number, things.c.share, things.c.changed_at.is_not(None))
    return [tuple(row) for row in tx.execute(select(*columns).order_by(things.c.id))]


def row(number: int, name: str | None, share: float | None) -> dict[str, Any]:
    return {"id": IDS[number], "name": name, "number": number, "share": share}


async def test_every_row_gets_its_own_values_and_others_stay(database: Database) -> None:
    await database.run(make)
    awkward = 'quotes " and \\ and , and { and 犬'
    await database.run(RENAME.run, [row(3, "three", 0.5), row(1, awkward, None), row(2, None, 1.5)])
    assert await database.read(read) == [
        ("old", 0, 0.0, False),
        (awkward, 1, None, True),
        (None, 2, 1.5, True),
        ("three", 3, 0.5, True),
    ]


async def test_no_rows_are_no_statement(database: Database) -> None:
    # There is no such table: whatever was asked would fail.
    await database.run(RENAME.run, [])
    assert await database.read(lambda tx: tx.sql("SELECT 1")) == [(1,)]
