"""Users' balances: changed only together with entries, never below zero, always locked in the order of user ids."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from sqlalchemy import select
from sqlalchemy.dialects import postgresql, sqlite

from longtake.db.dialects import NOW, SQLITE
from longtake.engine.queue_postgresql import arrays
from longtake.errors import InsufficientCredits, InvalidAmount
from longtake.services.credits.tables import credit_balances

if TYPE_CHECKING:
    from collections.abc import Mapping

    from longtake.db import Transaction

#: The most credits one user can have, far below what 64 bits hold.
BALANCE_LIMIT = 10**15

LOCK_POSTGRESQL = "SELECT FROM credit_balances WHERE user_id = ANY(%s::text[]) ORDER BY user_id FOR UPDATE"

CHANGE_POSTGRESQL = """
UPDATE credit_balances AS balance SET available = balance.available + change.available,
    held = balance.held + change.held, changed_at = longtake_now()
FROM unnest(%s::text[], %s::bigint[], %s::bigint[]) AS change(user_id, available, held)
WHERE balance.user_id = change.user_id AND balance.available + change.available >= 0
RETURNING balance.user_id, balance.available, balance.held
"""

CHANGE_SQLITE = """
UPDATE credit_balances SET available = available + ?2, held = held + ?3, changed_at = longtake_now()
WHERE user_id = ?1 AND available + ?2 >= 0 RETURNING user_id, available, held
"""


@dataclass(frozen=True, slots=True)
class Balance:
    """What a user can spend, and what running tasks hold."""

    available: int
    held: int


def balance(tx: Transaction, user_id: str) -> Balance:
    """Return the user's balance; a user without a row never had any credits."""
    query = select(credit_balances.c.available, credit_balances.c.held).where(credit_balances.c.user_id == user_id)
    row = tx.execute(query).first()
    return Balance(0, 0) if row is None else Balance(row.available, row.held)


def open_balance(tx: Transaction, user_id: str) -> None:
    """Create an empty balance for the user if there is none yet."""
    dialect = sqlite if tx.dialect == SQLITE else postgresql
    new = dialect.insert(credit_balances).values(user_id=user_id, available=0, held=0, changed_at=NOW)
    tx.execute(new.on_conflict_do_nothing())


def change_balances(tx: Transaction, changes: Mapping[str, Balance]) -> dict[str, Balance]:
    """Change the users' balances and return the new ones; raises InsufficientCredits if one would fall below zero.

    The condition of the UPDATE decides, not an earlier read: the second of two spenders sees what the first left.
    """
    given = [(user_id, changes[user_id].available, changes[user_id].held) for user_id in sorted(changes)]
    if tx.dialect == SQLITE:
        rows = [row for change in given for row in tx.sql(CHANGE_SQLITE, change)]
    else:
        if len(given) > 1:
            # An UPDATE of many rows locks them in any order, so that two batches could deadlock.
            tx.sql(LOCK_POSTGRESQL, arrays([(user_id,) for user_id, *_rest in given]))
        rows = tx.sql(CHANGE_POSTGRESQL, arrays(given))
    after = {user_id: Balance(available, held) for user_id, available, held in rows}
    for user_id in changes:
        if user_id not in after:
            raise _insufficient(tx, user_id, -changes[user_id].available)
        if after[user_id].available > BALANCE_LIMIT:
            raise InvalidAmount(f"A user cannot have more than {BALANCE_LIMIT:,} credits.")
    return after


def _insufficient(tx: Transaction, user_id: str, price: int) -> InsufficientCredits:
    now = balance(tx, user_id)
    return InsufficientCredits(
        f"{price:,} credits are needed and {now.available:,} are available.", balance=now.available, price=price
    )
