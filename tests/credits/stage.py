"""What tests of the ledger have in common: users with credits, tasks with a status, the ledger's own sums."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sqlalchemy import select, text

from longtake.capabilities.generation import operator as generation
from longtake.capabilities.scenes import operator as scenes
from longtake.clock import new_id
from longtake.engine.tables import events
from longtake.services.credits import Finding, Transfer, end_holds, grant, hold
from longtake.services.credits import audit as credits_audit
from longtake.services.credits.transfers import HOLDS_LIMIT

if TYPE_CHECKING:
    from collections.abc import Sequence

    from longtake import Transaction

HOLDERS = (*generation.OPERATOR.credit_holders, *scenes.OPERATOR.credit_holders)
ENDED = ("completed", "failed", "cancelled")


def audit(tx: Transaction) -> list[Finding]:
    """Return what is wrong with the ledger, and with all that credits are held for."""
    return credits_audit(tx, HOLDERS)


def give(tx: Transaction, user_id: str, amount: int, reference: str | None = None) -> Transfer:
    return grant(tx, user_id=user_id, amount=amount, reason="test", made_by="tester", reference=reference)


def begin(tx: Transaction, user_id: str, amount: int, task_id: str | None = None, most: int = HOLDS_LIMIT) -> str:
    """Write a task that has begun, with its credits held; return its id."""
    task_id = task_id or new_id()
    write_task(tx, task_id, user_id)
    hold(tx, user_id=user_id, amounts={task_id: amount}, most=most)
    return task_id


def capture(tx: Transaction, task_ids: Sequence[str]) -> list[str]:
    """Capture the holds of tasks; return the tasks whose hold this call ended."""
    return end_holds(tx, capture=task_ids).captured


def release(tx: Transaction, task_ids: Sequence[str], reason: str | dict[str, str]) -> dict[str, int]:
    """Release the holds of tasks; return the amount given back for each hold that this call ended."""
    reasons = reason if isinstance(reason, dict) else dict.fromkeys(task_ids, reason)
    return end_holds(tx, release=reasons).released


def write_task(tx: Transaction, task_id: str, user_id: str, status: str = "pending") -> None:
    ended = "longtake_now()" if status in ENDED else "NULL"
    tx.execute(
        text(
            "INSERT INTO tasks (id, user_id, type, model, provider, prompt, parameters, price, credits_held, reference,"
            " deadline_at, status, ended_at)"
            f" VALUES (:id, :user, 'image', 'm', 'p', 'x', '{{}}', 0, 0, :id2, longtake_now(), :status, {ended})"
        ),
        {"id": task_id, "user": user_id, "id2": task_id, "status": status},
    )


def end_task(tx: Transaction, task_id: str, status: str) -> None:
    change = "UPDATE tasks SET status = :status, ended_at = longtake_now() WHERE id = :id"
    tx.execute(text(change), {"status": status, "id": task_id})


def sums(tx: Transaction) -> dict[tuple[str | None, str], int]:
    """Return what the entries say is in each account."""
    rows = tx.sql("SELECT user_id, account, sum(amount) FROM credit_entries GROUP BY user_id, account")
    return {(user, account): int(total) for user, account, total in rows}


def kinds(tx: Transaction) -> list[str]:
    """Return the kinds of all transfers, in order."""
    return [str(kind) for (kind,) in tx.execute(text("SELECT kind FROM credit_transfers ORDER BY at, id"))]


def told(tx: Transaction) -> list[Any]:
    """Return subject, user and data of every event about credits, in order."""
    query = select(events.c.subject, events.c.user_id, events.c.data).where(events.c.type == "credits.changed")
    return [tuple(row) for row in tx.execute(query.order_by(events.c.sequence))]
