"""Transfers: each is written with its two entries, the balance they change, and an event. Users can list theirs."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sqlalchemy import select

from longtake.db.dialects import SQLITE
from longtake.engine.events import append_events
from longtake.engine.queries import plain
from longtake.engine.queue_postgresql import arrays
from longtake.errors import InvalidAmount
from longtake.services.credits.balances import Balance, change_balances
from longtake.services.credits.tables import credit_transfers

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sqlalchemy import Row

    from longtake.db import Transaction

AMOUNT_LIMIT = 10**12

#: The account each kind of transfer takes from, and the one it goes to.
WAYS = {
    "grant": ("issued", "available"),
    "hold": ("available", "held"),
    "capture": ("held", "earned"),
    "release": ("held", "available"),
    "refund": ("earned", "available"),
    "withdraw": ("available", "issued"),
}
USER_ACCOUNTS = ("available", "held")

WRITE_POSTGRESQL = """
WITH given AS (
    SELECT * FROM unnest(%s::uuid[], %s::text[], %s::text[], %s::uuid[], %s::bigint[], %s::text[], %s::text[],
                         %s::text[], %s::text[], %s::text[], %s::text[])
        AS given(id, kind, user_id, task_id, amount, reason, made_by, reference, request_id, origin, target)
), written AS (
    INSERT INTO credit_transfers (id, kind, user_id, task_id, amount, reason, made_by, reference, request_id)
    SELECT id, kind, user_id, task_id, amount, reason, made_by, reference, request_id FROM given
)
INSERT INTO credit_entries (transfer_id, account, user_id, amount)
SELECT id, origin, CASE WHEN origin IN ('available', 'held') THEN user_id END, -amount FROM given
UNION ALL
SELECT id, target, CASE WHEN target IN ('available', 'held') THEN user_id END, amount FROM given
"""

TRANSFER_SQLITE = """
INSERT INTO credit_transfers (id, kind, user_id, task_id, amount, reason, made_by, reference, request_id, at)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, longtake_now())
"""

ENTRY_SQLITE = "INSERT INTO credit_entries (transfer_id, account, user_id, amount) VALUES (?, ?, ?, ?)"


@dataclass(frozen=True, slots=True)
class Transfer:
    """Credits that move from one account to another. The amount is never negative; the kind gives the direction."""

    id: str
    kind: str
    user_id: str
    amount: int
    task_id: str | None = None
    reason: str = ""
    made_by: str | None = None
    reference: str | None = None
    request_id: str | None = None

    @property
    def change(self) -> Balance:
        """The change to the user's balance."""
        origin, target = WAYS[self.kind]
        available, held = (((target == one) - (origin == one)) * self.amount for one in USER_ACCOUNTS)
        return Balance(available, held)


def check_amount(amount: int, *, least: int = 1) -> None:
    """Raise InvalidAmount unless the amount is a whole number in range; fractions and booleans are refused."""
    if type(amount) is not int or not least <= amount <= AMOUNT_LIMIT:
        raise InvalidAmount(f"The amount is {amount!r}; it must be a whole number from {least} to {AMOUNT_LIMIT:,}.")


def post(tx: Transaction, transfers: Sequence[Transfer]) -> None:
    """Write the transfers with their entries, balances and events; none of them if one cannot be paid."""
    if not transfers:
        return
    balances = change_balances(tx, _sums(transfers))
    rows = [
        (one.id, one.kind, one.user_id, one.task_id, one.amount, one.reason, one.made_by, one.reference, one.request_id)
        for one in transfers
    ]
    if tx.dialect == SQLITE:
        tx.sql_many(TRANSFER_SQLITE, rows)
        tx.sql_many(ENTRY_SQLITE, [entry for one in transfers for entry in _entries(one)])
    else:
        tx.sql(WRITE_POSTGRESQL, arrays([(*row, *WAYS[row[1]]) for row in rows]))
    append_events(tx, [_event(one, balances[one.user_id]) for one in transfers])


def _sums(transfers: Sequence[Transfer]) -> dict[str, Balance]:
    """Return the sum of each user's changes."""
    by_user: dict[str, list[Balance]] = defaultdict(list)
    for one in transfers:
        by_user[one.user_id].append(one.change)
    return {
        user_id: Balance(sum(one.available for one in changes), sum(one.held for one in changes))
        for user_id, changes in by_user.items()
    }


def _entries(one: Transfer) -> list[tuple[str, str, str | None, int]]:
    origin, target = WAYS[one.kind]
    return [
        (one.id, origin, one.user_id if origin in USER_ACCOUNTS else None, -one.amount),
        (one.id, target, one.user_id if target in USER_ACCOUNTS else None, one.amount),
    ]


def _event(one: Transfer, after: Balance) -> tuple[str, str, str, dict[str, str | int]]:
    data: dict[str, str | int] = {"kind": one.kind, "amount": one.amount}
    data |= {"available": after.available, "held": after.held}
    return "credits.changed", one.task_id or one.id, one.user_id, data


HISTORY_LIMIT = 500
HISTORY_COLUMNS = ("id", "kind", "amount", "task_id", "reason", "made_by", "reference", "at")


@dataclass(frozen=True, slots=True)
class HistoryPage:
    """A page of transfers, and the `before` of the next page."""

    transfers: list[dict[str, Any]]
    next: str | None


def history(tx: Transaction, user_id: str, before: str | None = None, limit: int = 50) -> HistoryPage:
    """Return a page of transfers, newest first, each with its change to the available and the held credits."""
    limit = min(limit, HISTORY_LIMIT)
    query = select(*(credit_transfers.c[name] for name in HISTORY_COLUMNS)).where(credit_transfers.c.user_id == user_id)
    if before is not None:
        query = query.where(credit_transfers.c.id < before)
    rows = tx.execute(query.order_by(credit_transfers.c.id.desc()).limit(limit + 1)).all()
    cursor = str(rows[limit - 1].id) if len(rows) > limit else None
    return HistoryPage([_shown(user_id, row) for row in rows[:limit]], cursor)


def _shown(user_id: str, row: Row[Any]) -> dict[str, Any]:
    change = Transfer(row.id, row.kind, user_id, row.amount).change
    return {**plain(row), "available": change.available, "held": change.held}
