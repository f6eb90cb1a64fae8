"""The audit finds each kind of damage; the damage is done by hand, past all guards."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from sqlalchemy import text

from longtake import open_database
from longtake.clock import new_id
from longtake.db.dialects import SQLITE
from longtake.services.credits import refund
from longtake.services.credits.audit import CHECKS, SQLITE_ONLY
from tests.credits.stage import audit, begin, capture, end_task, give, release, write_task

if TYPE_CHECKING:
    from longtake import Database, Transaction

OPEN, CHARGED, FAILED, REFUNDED = (f"01990000-0000-7000-8000-00000000000{number}" for number in range(4))
GRANTED = "(SELECT id FROM credit_transfers WHERE kind = 'grant')"
EARNED_TWICE = f"INSERT INTO credit_entries (transfer_id, account, amount) VALUES ({GRANTED}, 'earned', {{}})"

#: Statements that do one kind of damage, and all codes that tell of it.
DAMAGE: list[tuple[str, set[str], list[str]]] = [
    (
        "one more entry",
        {"LEDGER_UNBALANCED", "TRANSFER_UNBALANCED", "ENTRY_MISPLACED"},
        [EARNED_TWICE.format(-7)],
    ),
    (
        "two more entries",
        {"TRANSFER_UNBALANCED", "ENTRY_MISPLACED"},
        [EARNED_TWICE.format(-7), EARNED_TWICE.format(7)],
    ),
    (
        "a transfer without entries",
        {"TRANSFER_UNBALANCED"},
        ["INSERT INTO credit_transfers (kind, user_id, amount) VALUES ('grant', 'ada', 5)"],
    ),
    (
        "another amount",
        {"TRANSFER_UNBALANCED"},
        ["UPDATE credit_transfers SET amount = 101 WHERE kind = 'grant'"],
    ),
    (
        "another account",
        {"ENTRY_MISPLACED"},
        [f"UPDATE credit_entries SET account = 'earned' WHERE account = 'issued' AND transfer_id = {GRANTED}"],
    ),
    (
        "another user",
        {"ENTRY_MISPLACED", "BALANCE_WRONG", "BALANCE_NEGATIVE"},
        [f"UPDATE credit_entries SET user_id = 'bob' WHERE user_id = 'ada' AND transfer_id = {GRANTED}"],
    ),
    ("more in the balance", {"BALANCE_WRONG"}, ["UPDATE credit_balances SET available = available + 1"]),
    ("one hold more", {"BALANCE_HOLDS_WRONG"}, ["UPDATE credit_balances SET open_holds = open_holds + 1"]),
    (
        "no balance",
        {"BALANCE_WRONG", "BALANCE_HELD_WRONG", "BALANCE_HOLDS_WRONG"},
        ["DELETE FROM credit_balances"],
    ),
    (
        "more held",
        {"BALANCE_WRONG", "BALANCE_HELD_WRONG"},
        ["UPDATE credit_balances SET held = held + 1, available = available - 1"],
    ),
    (
        "more spent than there was",
        {"BALANCE_NEGATIVE", "LEDGER_UNBALANCED", "TRANSFER_UNBALANCED", "BALANCE_WRONG"},
        [f"UPDATE credit_entries SET amount = 1 WHERE account = 'available' AND transfer_id = {GRANTED}"],
    ),
    (
        "captured without a capture",
        {"HOLD_TRANSFERS_WRONG", "BALANCE_HELD_WRONG", "BALANCE_HOLDS_WRONG", "TASK_WITHOUT_HOLD"},
        [f"UPDATE credit_holds SET state = 'captured', ended_at = opened_at WHERE task_id = '{OPEN}'"],
    ),
    (
        "open again after its capture",
        {"HOLD_TRANSFERS_WRONG", "HOLD_OPEN_AFTER_END", "BALANCE_HELD_WRONG", "BALANCE_HOLDS_WRONG"},
        [f"UPDATE credit_holds SET state = 'open', ended_at = NULL WHERE task_id = '{CHARGED}'"],
    ),
    (
        "another amount held",
        {"HOLD_TRANSFERS_WRONG"},
        [f"UPDATE credit_holds SET amount = 31 WHERE task_id = '{CHARGED}'"],
    ),
    (
        "no hold",
        {"TRANSFER_WITHOUT_HOLD", "TASK_NOT_CHARGED"},
        [f"DELETE FROM credit_holds WHERE task_id = '{CHARGED}'"],
    ),
    (
        "a task that failed while its credits stayed held",
        {"HOLD_OPEN_AFTER_END"},
        [f"UPDATE tasks SET status = 'failed', ended_at = created_at WHERE id = '{OPEN}'"],
    ),
    ("a task that is gone", {"HOLD_WITHOUT_TASK"}, [f"DELETE FROM tasks WHERE id = '{OPEN}'"]),
    (
        "a task that was given back although completed",
        {"TASK_NOT_CHARGED"},
        [f"UPDATE tasks SET status = 'completed' WHERE id = '{FAILED}'"],
    ),
    (
        "a task that was charged although failed",
        {"TASK_NOT_RELEASED"},
        [f"UPDATE tasks SET status = 'failed' WHERE id = '{CHARGED}'"],
    ),
    (
        "a task that was charged although cancelled",
        {"TASK_NOT_RELEASED"},
        [f"UPDATE tasks SET status = 'cancelled' WHERE id = '{CHARGED}'"],
    ),
    (
        "a task that begins again after its end",
        {"TASK_WITHOUT_HOLD"},
        [f"UPDATE tasks SET status = 'running', ended_at = NULL WHERE id = '{CHARGED}'"],
    ),
    (
        "a refund that the task does not know of",
        {"REFUND_NOT_NOTED"},
        [f"UPDATE tasks SET credits_refunded = 0 WHERE id = '{REFUNDED}'"],
    ),
]


@pytest.fixture
def used(database: Database) -> Database:
    """A ledger in which every kind of thing has happened, with its guards taken down."""
    database.run_blocking(give, "ada", 100)
    for task in (OPEN, CHARGED, FAILED, REFUNDED):
        database.run_blocking(begin, "ada", 20, task)
    database.run_blocking(capture, [CHARGED, REFUNDED])
    database.run_blocking(release, [FAILED], "TIMEOUT")
    for task, status in ((CHARGED, "completed"), (FAILED, "failed"), (REFUNDED, "completed")):
        database.run_blocking(end_task, task, status)
    database.run_blocking(lambda tx: refund(tx, task_id=REFUNDED, made_by="root", reason="x"))
    assert database.run_blocking(audit) == []
    return database


def take_guards_down(tx: Transaction) -> None:
    for table in ("credit_transfers", "credit_entries"):
        if tx.dialect == SQLITE:
            for verb in ("update", "delete"):
                tx.execute(text(f"DROP TRIGGER {table}_no_{verb}"))
        else:
            tx.execute(text(f"ALTER TABLE {table} DISABLE TRIGGER USER"))


def codes(tx: Transaction) -> set[str]:
    return {finding.code for finding in audit(tx)}


class Undone(Exception):
    """Carries what was found out of a transaction that leaves no trace."""


def test_each_damage_is_found_by_its_names(used: Database) -> None:
    def damage(tx: Transaction, statements: list[str]) -> None:
        take_guards_down(tx)
        for statement in statements:
            tx.execute(text(statement))
        raise Undone(codes(tx))

    found = {}
    for name, _expected, statements in DAMAGE:
        with pytest.raises(Undone) as undone:
            used.run_blocking(damage, statements)
        found[name] = undone.value.args[0] - {"LEDGER_UNGUARDED"}
    assert found == {name: expected for name, expected, _statements in DAMAGE}
    assert used.run_blocking(audit) == []


def test_every_check_has_its_damage() -> None:
    assert {check.code for check in CHECKS} == set().union(*(expected for _name, expected, _statements in DAMAGE))


def test_a_finding_names_what_it_is_about(used: Database) -> None:
    def damage(tx: Transaction) -> None:
        write_task(tx, new_id(), "bob", "completed")
        end_task(tx, OPEN, "failed")

    used.run_blocking(damage)
    findings = {finding.code: finding for finding in used.run_blocking(audit)}
    assert findings["HOLD_OPEN_AFTER_END"].task_id == OPEN
    assert findings["HOLD_OPEN_AFTER_END"].user_id == "ada"
    assert findings["TASK_NOT_CHARGED"].user_id == "bob"
    assert len(findings) == 2


def test_missing_guards_are_found(used: Database) -> None:
    used.run_blocking(take_guards_down)
    findings = used.run_blocking(audit)
    assert {finding.code for finding in findings} == {"LEDGER_UNGUARDED"}
    assert len(findings) == 4


def test_fractions_in_an_old_file_are_found(sqlite_url: str) -> None:
    database = open_database(sqlite_url)

    def spoil(tx: Transaction) -> set[str]:
        give(tx, "ada", 100)
        tx.execute(text("PRAGMA ignore_check_constraints = ON"))
        tx.execute(text("UPDATE credit_balances SET available = 100.5"))
        tx.execute(text("PRAGMA ignore_check_constraints = OFF"))
        return codes(tx)

    try:
        assert database.run_blocking(spoil) == {"BALANCE_WRONG", *(check.code for check in SQLITE_ONLY)}
    finally:
        database.close()


def test_an_audit_that_finds_very_much_stays_short(used: Database) -> None:
    def damage(tx: Transaction) -> None:
        for _ in range(150):
            write_task(tx, new_id(), "bob", "completed")

    used.run_blocking(damage)
    assert len(used.run_blocking(audit)) == 100
