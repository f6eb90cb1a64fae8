"""What following a task writes while it is under way: polls, progress, trouble."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any

from sqlalchemy import Row, bindparam, or_, select, update

from longtake.adapters.providers.provider import Provider
from longtake.adapters.providers.trouble import Trouble, trouble_words
from longtake.capabilities.generation.schemas import moment
from longtake.capabilities.generation.tables import UNFINISHED, tasks
from longtake.db import Transaction
from longtake.db.dialects import NOW, Json
from longtake.engine.events import append_event, append_events
from longtake.services.alerts import Severity, raise_alert, resolve_alert
from longtake.services.provider_calls.lanes import act_on_trouble


def count_polls(tx: Transaction, task_ids: Sequence[str]) -> set[str]:
    """Note that the tasks were asked about; return those that are unfinished. The others need not be asked again."""
    if not task_ids:
        return set()
    asked = (tasks.c.id.in_(sorted(task_ids)), tasks.c.status.in_(UNFINISHED))
    counted = update(tasks).where(*asked).values(poll_count=tasks.c.poll_count + 1, last_polled_at=NOW)
    return set(tx.execute(counted.returning(tasks.c.id)).scalars())


def write_progress(tx: Transaction, progress: Mapping[str, float | None]) -> None:
    """Write how far tasks are and that they have no trouble any more; an event only where something changed."""
    if not progress:
        return
    changed = or_(tasks.c.progress.is_distinct_from(bindparam("now_at")), tasks.c.trouble.is_not(None))
    for task_id, value in sorted(progress.items()):
        change = (
            update(tasks)
            .where(tasks.c.id == task_id, tasks.c.status == "running", changed)
            .values(progress=value, trouble=None)
            .returning(tasks.c.user_id)
        )
        for row in tx.execute(change, {"now_at": value}):
            data = {"status": "running", "progress": value}
            append_event(tx, "task.progress", subject=task_id, user_id=row.user_id, data=data)


def write_trouble(tx: Transaction, provider: Provider, troubles: Mapping[str, Trouble]) -> None:
    """Write what keeps tasks waiting; pause lanes and tell people where it does not pass by itself."""
    if not troubles:
        return
    _tell_changed(tx, troubles)
    for one in {(one.code, one.pause, one.alert): one for one in troubles.values()}.values():
        act_on_trouble(tx, provider, one)


def _tell_changed(tx: Transaction, troubles: Mapping[str, Trouble]) -> None:
    """Write what is new to a task, and tell of each try that failed; the waits between them keep that to a few."""
    waiting = (tasks.c.id.in_(sorted(troubles)), tasks.c.status.in_(UNFINISHED))
    columns = (tasks.c.id, tasks.c.user_id, tasks.c.status, tasks.c.trouble, NOW.label("now"))
    rows = tx.execute(select(*columns).where(*waiting).order_by(tasks.c.id).with_for_update()).all()
    changed = [row for row in rows if (row.trouble or {}).get("code") != troubles[row.id].code]
    if changed:
        written = [{"task": row.id, "new_trouble": _kept(troubles[row.id])} for row in changed]
        change = update(tasks).where(tasks.c.id == bindparam("task"))
        tx.execute(change.values(trouble=bindparam("new_trouble", type_=Json)), written)
    # A try that failed again is news even for the same reason: the user sees which one the task waits for, and when.
    tried = [row for row in rows if troubles[row.id].attempt is not None]
    told = {row.id: row for row in [*changed, *tried]}.values()
    append_events(tx, [("task.trouble", row.id, row.user_id, _told(row, troubles[row.id])) for row in told])


def _kept(trouble: Trouble) -> dict[str, Any]:
    return {"code": trouble.code, "message": trouble.message}


def _told(row: Row[Any], trouble: Trouble) -> dict[str, Any]:
    """Return what the event says: the same words as the task itself, and when it is tried again."""
    retry = None
    if trouble.attempt is not None:
        at = row.now + timedelta(seconds=trouble.seconds)
        retry = {"attempt": trouble.attempt, "of": None, "at": moment(at)}
    words = {"code": trouble.code, "message": trouble_words(trouble.code)}
    return {"status": row.status, "trouble": words, "retry": retry}


def alert_about_unknown(tx: Transaction, task_id: str, provider: str, reason: str) -> None:
    """Tell people about a submit that may or may not have been accepted: only they can look it up."""
    message = (
        f"{provider} may have accepted the task {task_id}, but its answer was lost ({reason}). It is not sent again."
        " If the provider's callback names it, it goes on by itself; else it ends at its deadline and is not charged."
    )
    raise_alert(tx, Severity.WARNING, "SUBMIT_UNKNOWN", message, subject=task_id)


def resolve_unknown(tx: Transaction, task_id: str) -> None:
    """The lost answer was found."""
    resolve_alert(tx, "SUBMIT_UNKNOWN", task_id)


def alert_about_word(tx: Transaction, provider: str, word: str) -> None:
    """Tell people about a state nobody knows: the task is held and asked about again."""
    message = f"{provider} answered with the unknown state {word[:80]!r}. Its tasks are held and asked about again."
    raise_alert(tx, Severity.WARNING, "PROVIDER_STATE_UNKNOWN", message, subject=provider)


def alert_about_reused_id(tx: Transaction, task_id: str, provider: str) -> None:
    """Tell people that a provider mixes tasks up: one of the two results would have been the other's."""
    message = f"{provider} gave the task {task_id} the remote id of another task. It was failed and not charged."
    raise_alert(tx, Severity.CRITICAL, "PROVIDER_ID_REUSED", message, subject=provider)
