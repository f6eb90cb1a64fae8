"""What operators can do with notes."""

from __future__ import annotations

from typing import Any

from sqlalchemy import func, select

from longtake.actions import Action, Name, Operator
from longtake.db import Transaction
from longtake.engine.engine import Engine
from tests.service.notes.capability import notes


def notes_figures(tx: Transaction, _engine: Engine, *, user_id: Name) -> dict[str, Any]:
    """Show how many notes a user has."""
    found = select(func.count()).select_from(notes).where(notes.c.user_id == user_id)
    return {"notes": tx.execute(found).scalar_one()}


OPERATOR = Operator(actions=[Action("notes.figures", notes_figures)])
