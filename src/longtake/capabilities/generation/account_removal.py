"""Removes the tasks of a user who deleted the account, page by page."""

from __future__ import annotations

from datetime import datetime

from sqlalchemy import ColumnElement, select

from longtake.capabilities.generation.removal import PAGE, remove_tasks
from longtake.capabilities.generation.tables import IS_UNFINISHED, TASK_KINDS, tasks
from longtake.capabilities.generation.tasks import Unsuccessful, end_tasks
from longtake.db import Transaction
from longtake.engine.control import cancel_of_subjects
from longtake.engine.engine import Engine


def end_tasks_of(tx: Transaction, _engine: Engine, user_id: str, before: datetime) -> bool:
    """Cancel unfinished tasks, as the user could: their credits are released before the tasks are removed."""
    found = _page(tx, user_id, before, IS_UNFINISHED)
    cancel_of_subjects(tx, found, TASK_KINDS, "its user has deleted the account")
    end_tasks(
        tx,
        unsuccessful=[
            Unsuccessful(one, "cancelled", "CANCELLED", "Its user has deleted the account.") for one in found
        ],
    )
    return len(found) == PAGE


def remove_tasks_of(tx: Transaction, engine: Engine, user_id: str, before: datetime) -> bool:
    """Remove tasks that have ended, with their messages and results."""
    found = _page(tx, user_id, before, ~IS_UNFINISHED)
    remove_tasks(tx, engine, found)
    return len(found) == PAGE


def _page(tx: Transaction, user_id: str, before: datetime, which: ColumnElement[bool]) -> list[str]:
    mine = (tasks.c.user_id == user_id, tasks.c.created_at <= before, which)
    return list(tx.execute(select(tasks.c.id).where(*mine).order_by(tasks.c.id).limit(PAGE)).scalars())
