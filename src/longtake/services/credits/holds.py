"""Holds: credits set aside for a task until it ends. A hold ends exactly once, captured or released.

Locks are taken in one order everywhere: holds by task, then balances by user. So no two batches deadlock.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import orjson
from sqlalchemy import BigInteger, Column, Table, Text, bindparam
from sqlalchemy.dialects import postgresql, sqlite

from longtake.clock import new_id
from longtake.db import Transaction
from longtake.db.dialects import NOW, POSTGRESQL, SQLITE, Identifier, Instant
from longtake.db.prepared import Prepared
from longtake.engine.queue_postgresql import arrays
from longtake.engine.tables import metadata
from longtake.errors import StateConflict
from longtake.services.credits.transfers import HOLDS_LIMIT, Transfer, check_amount, open_balance, post

credit_holds = Table(
    "credit_holds",
    metadata,
    Column("task_id", Identifier, primary_key=True),
    Column("user_id", Text, nullable=False),
    Column("amount", BigInteger, nullable=False),
    Column("state", Text, nullable=False),
    Column("opened_at", Instant, nullable=False),
    Column("ended_at", Instant),
)

LOCK_POSTGRESQL = "SELECT FROM credit_holds WHERE task_id = ANY(%s::uuid[]) ORDER BY task_id FOR UPDATE"

END_POSTGRESQL = """
UPDATE credit_holds SET state = %s, ended_at = longtake_now() WHERE task_id = ANY(%s::uuid[]) AND state = 'open'
RETURNING task_id, user_id, amount
"""

END_SQLITE = """
UPDATE credit_holds SET state = ?, ended_at = longtake_now()
WHERE task_id IN (SELECT value FROM json_each(?)) AND state = 'open' RETURNING task_id, user_id, amount
"""

#: The insert, prepared for each dialect.
OPEN = {
    name: Prepared(
        dialect.insert(credit_holds)
        .values(**{one: bindparam(one) for one in ("task_id", "user_id", "amount")}, state="open", opened_at=NOW)
        .on_conflict_do_nothing()
        .returning(credit_holds.c.task_id)
    )
    for name, dialect in ((SQLITE, sqlite), (POSTGRESQL, postgresql))
}


@dataclass(frozen=True, slots=True)
class Ended:
    """The holds that one call ended: the captured tasks, and the amount given back for each released one."""

    captured: list[str]
    released: dict[str, int]


def hold(
    tx: Transaction,
    *,
    user_id: str,
    amounts: Mapping[str, int],
    request_id: str | None = None,
    most: int = HOLDS_LIMIT,
) -> None:
    """Hold the prices of tasks of one user: all of them, or none. A task that costs nothing has a hold too.

    Raises InsufficientCredits, or TooManyTasks when the user would have more than `most` open holds.
    """
    for task_id, amount in amounts.items():
        check_amount(amount, least=0)
        if not tx.run(OPEN[tx.dialect], task_id=task_id, user_id=user_id, amount=amount):
            raise StateConflict(f"Credits are already held for the task {task_id}.")
    if not any(amounts.values()):
        # A user without credits may have free tasks.
        open_balance(tx, user_id)
    post(
        tx,
        [
            Transfer(new_id(), "hold", user_id, amount, task_id, request_id=request_id)
            for task_id, amount in amounts.items()
            if amount
        ],
        {user_id: len(amounts)},
        most_holds=most,
    )


def end_holds(tx: Transaction, *, capture: Sequence[str] = (), release: Mapping[str, str] | None = None) -> Ended:
    """Capture some holds and release others, each with a reason, taking all locks in one order.

    A hold that has ended stays as it is: when a capture and a release race, only one finds it open.
    """
    reasons = release or {}
    if both := reasons.keys() & set(capture):
        raise ValueError(f"A hold can be captured or released, not both: {sorted(both)}")
    _lock(tx, [*capture, *reasons])
    captured = _end(tx, "captured", capture)
    released = _end(tx, "released", list(reasons))
    ended = [*captured, *released]
    transfers = [Transfer(new_id(), "capture", user, amount, task) for task, user, amount in captured if amount]
    transfers += [
        Transfer(new_id(), "release", user, amount, task, reasons[task]) for task, user, amount in released if amount
    ]
    post(tx, transfers, {user: -number for user, number in Counter(user for _task, user, _amount in ended).items()})
    return Ended([task for task, *_rest in captured], {task: amount for task, _user, amount in released})


def _lock(tx: Transaction, task_ids: Sequence[str]) -> None:
    # SQLite has one writer at a time; a single row is locked by its UPDATE.
    if tx.dialect != SQLITE and len(task_ids) > 1:
        tx.sql(LOCK_POSTGRESQL, arrays([(task_id,) for task_id in task_ids]))


def _end(tx: Transaction, state: str, task_ids: Sequence[str]) -> list[tuple[str, str, int]]:
    if not task_ids:
        return []
    if tx.dialect == SQLITE:
        rows = tx.sql(END_SQLITE, (state, orjson.dumps(list(task_ids)).decode()))
    else:
        rows = tx.sql(END_POSTGRESQL, (state, *arrays([(task_id,) for task_id in task_ids])))
    return [(str(task_id), user_id, amount) for task_id, user_id, amount in rows]
