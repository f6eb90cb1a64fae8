"""Deletes an account: everything that the user had at that moment.

Keys, webhooks and answers kept for idempotency go at once, in the transaction that also enqueues the job
``generation.delete_account``. The job removes the rest in pages, because it may be much. Users exist by their tokens
alone, so a user who comes back starts afresh: the job touches nothing that is made after the moment.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import Column, delete, select

from longtake.capabilities.generation.removal import PAGE, remove_tasks
from longtake.capabilities.generation.tables import DELETE_ACCOUNT, IS_UNFINISHED, TASK_KINDS, tasks
from longtake.capabilities.generation.tasks import Unsuccessful, end_tasks
from longtake.db import Database, Transaction
from longtake.engine.control import cancel_of_subject
from longtake.engine.engine import Engine
from longtake.engine.jobs import Job
from longtake.engine.kinds import Exponential, JobKind
from longtake.engine.outcomes import Done, Outcome
from longtake.engine.schedules import database_now
from longtake.http.idempotency import idempotency_keys
from longtake.services.accounts.api_keys import api_keys
from longtake.services.assets import assets
from longtake.services.assets.store import remove_assets
from longtake.services.conversations.store import remove_conversation
from longtake.services.conversations.tables import conversations
from longtake.services.webhooks.tables import webhook_endpoints

#: Removes a page of what a user had at that moment; returns whether there may be more.
Remove = Callable[[Transaction, Engine, str, datetime], bool]


def begin_deletion(tx: Transaction, engine: Engine, user_id: str) -> None:
    """Remove the user's keys, webhooks and kept answers, and enqueue the rest. Repeating it does no harm."""
    for table in (api_keys, webhook_endpoints, idempotency_keys):
        tx.execute(delete(table).where(table.c.user_id == user_id))
    engine.enqueue(tx, DELETE_ACCOUNT, {"user": user_id, "before": database_now(tx).isoformat()})


class AccountRemoval:
    """Removes what users had who deleted their account; ``others`` remove what other capabilities keep."""

    def __init__(self, database: Database, others: Sequence[Remove] = ()) -> None:
        self._database = database
        self._others = others

    def kind(self) -> JobKind:
        """Return the job kind."""
        return JobKind(DELETE_ACCOUNT, self.run, time_limit=600.0, max_attempts=1_000, back_off=Exponential())

    async def run(self, job: Job) -> Outcome:
        """Remove everything in pages, each in its own transaction: after a kill, the job goes on where it was."""
        user_id, before = job.args["user"], datetime.fromisoformat(job.args["before"])
        for remove in (*self._others, _end_tasks, _remove_tasks, _remove_conversations, _remove_assets):
            while await self._database.run(remove, job.engine, user_id, before):
                pass
        return Done()


def _end_tasks(tx: Transaction, _engine: Engine, user_id: str, before: datetime) -> bool:
    """Cancel unfinished tasks, as the user could: their credits are released before the tasks are removed."""
    found = _page(tx, tasks.c.id, tasks.c.user_id == user_id, IS_UNFINISHED, tasks.c.created_at <= before)
    for task_id in found:
        cancel_of_subject(tx, task_id, TASK_KINDS, "its user has deleted the account")
    end_tasks(
        tx,
        unsuccessful=[
            Unsuccessful(one, "cancelled", "CANCELLED", "Its user has deleted the account.") for one in found
        ],
    )
    return len(found) == PAGE


def _remove_tasks(tx: Transaction, engine: Engine, user_id: str, before: datetime) -> bool:
    mine = (tasks.c.user_id == user_id, tasks.c.created_at <= before, ~IS_UNFINISHED)
    found = _page(tx, tasks.c.id, *mine)
    remove_tasks(tx, engine, found)
    return len(found) == PAGE


def _remove_conversations(tx: Transaction, _engine: Engine, user_id: str, before: datetime) -> bool:
    mine = (conversations.c.user_id == user_id, conversations.c.created_at <= before)
    found = _page(tx, conversations.c.id, *mine)
    for conversation_id in found:
        remove_conversation(tx, user_id, conversation_id)
    return len(found) == PAGE


def _remove_assets(tx: Transaction, engine: Engine, user_id: str, before: datetime) -> bool:
    """Remove references and imports; results of newer tasks stay with their tasks."""
    mine = (assets.c.user_id == user_id, assets.c.created_at <= before)
    found = _page(tx, assets.c.id, *mine)
    remove_assets(tx, engine, found)
    return len(found) == PAGE


def _page(tx: Transaction, column: Column[Any], *which: Any) -> list[str]:
    return list(tx.execute(select(column).where(*which).order_by(column).limit(PAGE)).scalars())
