"""A user's transfers, newest first, as plain data."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sqlalchemy import select

from longtake.engine.queries import plain
from longtake.services.credits.tables import credit_transfers
from longtake.services.credits.transfers import Transfer

if TYPE_CHECKING:
    from sqlalchemy import Row

    from longtake.db import Transaction

PAGE_LIMIT = 500
SHOWN = ("id", "kind", "amount", "task_id", "reason", "made_by", "reference", "at")


@dataclass(frozen=True, slots=True)
class HistoryPage:
    """Some transfers, and what `before` has to be for those that came before them."""

    transfers: list[dict[str, Any]]
    next: str | None


def history(tx: Transaction, user_id: str, before: str | None = None, limit: int = 50) -> HistoryPage:
    """Return the newest transfers; each says what it did to the available and to the held credits."""
    limit = min(limit, PAGE_LIMIT)
    query = select(*(credit_transfers.c[name] for name in SHOWN)).where(credit_transfers.c.user_id == user_id)
    if before is not None:
        query = query.where(credit_transfers.c.id < before)
    rows = tx.execute(query.order_by(credit_transfers.c.id.desc()).limit(limit + 1)).all()
    cursor = str(rows[limit - 1].id) if len(rows) > limit else None
    return HistoryPage([_shown(user_id, row) for row in rows[:limit]], cursor)


def _shown(user_id: str, row: Row[Any]) -> dict[str, Any]:
    change = Transfer(row.id, row.kind, user_id, row.amount).change
    return {**plain(row), "available": change.available, "held": change.held}
