"""Manual transfers: grant credits, withdraw them, refund a task."""

from sqlalchemy import BigInteger, column, select, table, update

from longtake.clock import new_id
from longtake.db import Transaction
from longtake.db.dialects import POSTGRESQL, Identifier
from longtake.errors import NotFound, StateConflict
from longtake.services.credits.holds import credit_holds
from longtake.services.credits.transfers import Transfer, check_amount, credit_transfers, open_balance, post
from longtake.validation import check_plain_text

#: The only column of tasks that the ledger writes: the refunded amount.
tasks = table("tasks", column("id", Identifier), column("credits_refunded", BigInteger))

NAME_LIMIT = 200
REASON_LIMIT = 500

LOCK_REFERENCE = "SELECT pg_advisory_xact_lock(hashtextextended(%s, 0))"


def grant(
    tx: Transaction, *, user_id: str, amount: int, reason: str, made_by: str, reference: str | None = None
) -> Transfer:
    """Grant credits to a user. The same reference again returns the first grant and adds nothing."""
    new = Transfer(new_id(), "grant", user_id, amount, reason=reason, made_by=made_by, reference=reference)
    _check(new)
    open_balance(tx, user_id)
    return _find_same(tx, new) or _post_one(tx, new)


def withdraw(
    tx: Transaction, *, user_id: str, amount: int, reason: str, made_by: str, reference: str | None = None
) -> Transfer:
    """Withdraw available credits; held ones stay. The same reference again returns the first withdrawal."""
    new = Transfer(new_id(), "withdraw", user_id, amount, reason=reason, made_by=made_by, reference=reference)
    _check(new)
    return _find_same(tx, new) or _post_one(tx, new)


def refund(tx: Transaction, *, task_id: str, made_by: str, reason: str) -> Transfer:
    """Refund what a task was charged, once. The capture stays in the ledger and the refund reverses it."""
    # The task first: code that ends a task locks it before its hold.
    known = tx.execute(select(tasks.c.id).where(tasks.c.id == task_id).with_for_update()).first()
    held = tx.execute(select(credit_holds).where(credit_holds.c.task_id == task_id).with_for_update()).first()
    if held is None:
        raise NotFound(f"No credits were ever held for the task {task_id}.")
    new = Transfer(new_id(), "refund", held.user_id, held.amount, task_id, reason, made_by)
    _check(new, least=0)
    _require_refundable(tx, task_id, held.state, held.amount)
    post(tx, [new])
    if known is not None:
        tx.execute(update(tasks).where(tasks.c.id == task_id).values(credits_refunded=held.amount))
    return new


def _require_refundable(tx: Transaction, task_id: str, state: str, amount: int) -> None:
    if state != "captured":
        now = "are still held" if state == "open" else "were released"
        raise StateConflict(
            f"The credits of the task {task_id} {now}; only captured ones can be refunded.", hold_state=state
        )
    if not amount:
        raise StateConflict(f"The task {task_id} cost nothing.", hold_state=state)
    before = select(credit_transfers.c.id).where(
        credit_transfers.c.task_id == task_id, credit_transfers.c.kind == "refund"
    )
    if (found := tx.execute(before).scalar()) is not None:
        raise StateConflict(f"The task {task_id} was refunded already.", hold_state=state, transfer_id=str(found))


def _find_same(tx: Transaction, new: Transfer) -> Transfer | None:
    if new.reference is None:
        return None
    if tx.dialect == POSTGRESQL:
        # Concurrent requests with the same reference take turns: the second finds what the first wrote.
        tx.sql(LOCK_REFERENCE, (f"credits {new.kind} {new.reference}",))
    same = (credit_transfers.c.kind == new.kind, credit_transfers.c.reference == new.reference)
    row = tx.execute(select(credit_transfers).where(*same)).first()
    if row is None:
        return None
    if (row.user_id, row.amount) != (new.user_id, new.amount):
        raise StateConflict(
            f"The reference {new.reference!r} belongs to another {new.kind}.",
            hint="A reference names one payment: use it only to send the same one again.",
            transfer_id=str(row.id),
        )
    return Transfer(
        str(row.id), row.kind, row.user_id, row.amount, None, row.reason, row.made_by, row.reference, row.request_id
    )


def _post_one(tx: Transaction, new: Transfer) -> Transfer:
    post(tx, [new])
    return new


def _check(new: Transfer, *, least: int = 1) -> None:
    check_amount(new.amount, least=least)
    check_plain_text("user_id", new.user_id, most=NAME_LIMIT, least=1)
    check_plain_text("reason", new.reason, most=REASON_LIMIT, least=1)
    check_plain_text("made_by", new.made_by or "", most=NAME_LIMIT, least=1)
    check_plain_text("reference", new.reference or "", most=NAME_LIMIT, least=new.reference is not None)
