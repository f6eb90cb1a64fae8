"""Users' balances: changed only together with entries, never below zero, always locked in the order of user ids."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from sqlalchemy import select
from sqlalchemy.dialects import postgresql, sqlite

from longtake.db.dialects import NOW, SQLITE
from longtake.errors import InsufficientCredits, TooManyTasks
from longtake.services.credits.tables import credit_balances

if TYPE_CHECKING:
    from longtake.db import Transaction


@dataclass(frozen=True, slots=True)
class Balance:
    """What a user can spend, and what running tasks hold."""

    available: int
    held: int


@dataclass(frozen=True, slots=True)
class Change:
    """What is added to a balance, and to the number of the user's open holds."""

    available: int
    held: int
    holds: int


def balance(tx: Transaction, user_id: str) -> Balance:
    """Return the user's balance; a user without a row never had any credits."""
    query = select(credit_balances.c.available, credit_balances.c.held).where(credit_balances.c.user_id == user_id)
    row = tx.execute(query).first()
    return Balance(0, 0) if row is None else Balance(row.available, row.held)


def open_balance(tx: Transaction, user_id: str) -> None:
    """Create an empty balance for the user if there is none yet."""
    dialect = sqlite if tx.dialect == SQLITE else postgresql
    new = dialect.insert(credit_balances).values(user_id=user_id, available=0, held=0, open_holds=0, changed_at=NOW)
    tx.execute(new.on_conflict_do_nothing())


def refusal(tx: Transaction, user_id: str, change: Change, most_holds: int) -> InsufficientCredits | TooManyTasks:
    """Return why the balance was not changed."""
    open_holds = select(credit_balances.c.open_holds).where(credit_balances.c.user_id == user_id)
    if (tx.execute(open_holds).scalar() or 0) + change.holds > most_holds:
        return TooManyTasks(
            f"One user may have {most_holds:,} unfinished tasks. Wait until some have ended.", limit=most_holds
        )
    now, price = balance(tx, user_id), -change.available
    return InsufficientCredits(
        f"{price:,} credits are needed and {now.available:,} are available.", balance=now.available, price=price
    )
