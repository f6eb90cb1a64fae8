"""A table of numbers to write to, and the plain functions that do it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlalchemy import text

if TYPE_CHECKING:
    from longtake import Transaction


def make_notes(tx: Transaction) -> None:
    tx.execute(text("CREATE TABLE notes (value integer PRIMARY KEY)"))


def add_note(tx: Transaction, value: int) -> int:
    tx.execute(text("INSERT INTO notes VALUES (:value)"), {"value": value})
    return value


def read_notes(tx: Transaction) -> list[int]:
    return list(tx.execute(text("SELECT value FROM notes ORDER BY value")).scalars())
