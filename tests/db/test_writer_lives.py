"""The writer thread outlives everything: were it to end, every caller would wait for ever."""

from __future__ import annotations

import sqlite3
import threading
from typing import TYPE_CHECKING

import pytest

from longtake import open_database
from longtake.db.errors import DatabaseUnavailable
from tests.db.notes import add_note, make_notes, read_notes
from tests.db.test_lost_group import lose_the_transaction

if TYPE_CHECKING:
    from collections.abc import Callable

    from longtake import Database, Transaction
    from longtake.db.sqlite import SqliteDatabase


class Once:
    """Raises the first time it is called, and then does what it replaces."""

    def __init__(self, error: Exception, replaced: Callable[..., object]) -> None:
        self.error: Exception | None = error
        self.replaced = replaced

    def __call__(self, *arguments: object) -> object:
        if self.error is not None:
            error, self.error = self.error, None
            raise error
        return self.replaced(*arguments)


class Unheard(BaseException):
    """As SystemExit is: not an Exception."""


async def test_a_callback_that_raises_changes_nothing_for_the_caller(noted: Database) -> None:
    called: list[int] = []

    def fail() -> None:
        raise LookupError

    def write(tx: Transaction, value: int) -> int:
        tx.after_commit(fail)
        tx.after_commit(lambda: called.append(value))
        return add_note(tx, value)

    assert await noted.run(write, 1) == 1
    assert noted.run_blocking(write, 2) == 2
    assert called == [1, 2]
    assert await noted.read(read_notes) == [1, 2]


def test_a_function_may_raise_anything(noted: Database) -> None:
    def leave(tx: Transaction) -> None:
        add_note(tx, 1)
        raise Unheard

    with pytest.raises(Unheard):
        noted.run_blocking(leave)
    assert noted.run_blocking(add_note, 2) == 2
    assert noted.run_blocking(read_notes) == [2]


def test_a_look_for_outside_writes_that_fails_is_repeated(
    sqlite_noted: SqliteDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    failing = Once(sqlite3.OperationalError("disk I/O error"), sqlite_noted._writer.outside_version)
    monkeypatch.setattr(sqlite_noted._writer, "outside_version", failing)
    heard = threading.Event()
    sqlite_noted.signals.subscribe(lambda _topic: heard.set())
    outside = sqlite3.connect(sqlite_noted.path)
    outside.execute("INSERT INTO notes VALUES (1)")
    outside.commit()
    outside.close()
    assert heard.wait(15)
    assert failing.error is None
    assert sqlite_noted.run_blocking(add_note, 2) == 2


def test_a_subscriber_that_raises_is_not_the_end(sqlite_noted: SqliteDatabase) -> None:
    heard = threading.Event()

    def fail(_topic: str) -> None:
        heard.set()
        raise LookupError

    sqlite_noted.signals.subscribe(fail)
    outside = sqlite3.connect(sqlite_noted.path)
    outside.execute("INSERT INTO notes VALUES (1)")
    outside.commit()
    outside.close()
    assert heard.wait(15)
    assert sqlite_noted.run_blocking(add_note, 2) == 2


def test_a_rollback_that_fails_is_told_and_then_made_good(
    sqlite_noted: SqliteDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    failing = Once(sqlite3.OperationalError("disk I/O error"), sqlite_noted._writer.roll_back)
    monkeypatch.setattr(sqlite_noted._writer, "roll_back", failing)
    with pytest.raises((sqlite3.Error, DatabaseUnavailable)):
        sqlite_noted.run_blocking(lose_the_transaction)
    assert failing.error is None
    assert sqlite_noted.run_blocking(add_note, 2) == 2
    assert sqlite_noted.run_blocking(read_notes) == [2]


def test_whoever_comes_while_it_closes_is_answered(sqlite_url: str) -> None:
    """Written, or refused: never left waiting."""
    for _ in range(20):
        database = open_database(sqlite_url)
        if not database.run_blocking(lambda tx: tx.sql("SELECT 1 FROM sqlite_master WHERE name = 'notes'")):
            database.run_blocking(make_notes)
        together = threading.Barrier(9, timeout=20)

        def write_until_closed(database: Database = database, together: threading.Barrier = together) -> None:
            together.wait()
            try:
                while True:
                    database.run_blocking(read_notes)
            except DatabaseUnavailable:
                pass

        threads = [threading.Thread(target=write_until_closed, daemon=True) for _ in range(8)]
        for thread in threads:
            thread.start()
        together.wait()
        database.close()
        for thread in threads:
            thread.join(15)
            assert not thread.is_alive()
