"""What the database itself refuses, whoever asks."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from sqlalchemy import text
from sqlalchemy.exc import DBAPIError

from longtake import open_database
from longtake.db.dialects import SQLITE
from longtake.db.errors import RightsMissing
from longtake.services.credits import balance, history
from tests.credits.stage import audit, begin, capture, end_task, give

if TYPE_CHECKING:
    from longtake import Database, Transaction


def change(tx: Transaction, statement: str) -> None:
    tx.execute(text(statement))


@pytest.fixture
def charged(database: Database) -> Database:
    """A ledger with a grant, a hold and a capture."""
    database.run_blocking(give, "ada", 100)
    task = database.run_blocking(begin, "ada", 30)
    database.run_blocking(capture, [task])
    database.run_blocking(end_task, task, "completed")
    return database


def test_what_was_written_is_neither_changed_nor_removed(charged: Database) -> None:
    for table in ("credit_transfers", "credit_entries"):
        statements = [f"UPDATE {table} SET amount = amount + 1", f"DELETE FROM {table}"]
        if charged.dialect != SQLITE:
            statements.append(f"TRUNCATE {table} CASCADE")
        for statement in statements:
            with pytest.raises(DBAPIError, match="append-only"):
                charged.run_blocking(change, statement)
    assert charged.run_blocking(audit) == []


def test_what_can_never_be_right_is_refused(charged: Database) -> None:
    again = (
        "INSERT INTO credit_transfers (kind, user_id, task_id, amount) SELECT {}, user_id, task_id, amount"
        " FROM credit_transfers WHERE kind = 'capture'"
    )
    for statement in (
        again.format("'capture'"),
        again.format("'release'"),
        "INSERT INTO credit_transfers (kind, user_id, amount) VALUES ('grant', 'ada', 0)",
        "INSERT INTO credit_transfers (kind, user_id, amount) VALUES ('capture', 'ada', 1)",
        "UPDATE credit_balances SET available = -1",
        "UPDATE credit_balances SET held = -1",
        "UPDATE credit_balances SET open_holds = -1",
        "UPDATE credit_holds SET ended_at = NULL",
    ):
        with pytest.raises(DBAPIError):
            charged.run_blocking(change, statement)
    assert charged.run_blocking(audit) == []


def test_sqlite_keeps_only_whole_numbers_too(sqlite_url: str) -> None:
    database = open_database(sqlite_url)
    database.run_blocking(give, "ada", 100)
    database.run_blocking(begin, "ada", 30)
    for statement in (
        "INSERT INTO credit_transfers (kind, user_id, amount) VALUES ('grant', 'ada', 1.5)",
        "INSERT INTO credit_entries (transfer_id, account, amount) SELECT id, 'issued', 1.5 FROM credit_transfers",
        "UPDATE credit_balances SET available = 1.5",
        "UPDATE credit_holds SET amount = 'many'",
    ):
        with pytest.raises(DBAPIError, match="whole"):
            database.run_blocking(change, statement)
    database.close()


async def test_on_postgresql_a_user_sees_and_changes_no_others_credits(postgresql_url: str) -> None:
    database = open_database(postgresql_url, threads=1)
    try:
        database.run_blocking(give, "ada", 100)
        assert (await database.read(balance, "ada", as_user="ada")).available == 100
        assert (await database.read(balance, "ada", as_user="bob")).available == 0
        assert (await database.read(history, "ada", as_user="bob")).transfers == []
        with pytest.raises(RightsMissing):
            await database.run(give, "bob", 100, as_user="bob")
    finally:
        database.close()
