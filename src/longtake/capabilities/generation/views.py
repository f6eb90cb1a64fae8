"""A task as Python sees it, and as callers see it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from datetime import datetime
from typing import Any

from sqlalchemy import Row

from longtake.adapters.providers.trouble import trouble_words
from longtake.capabilities.generation.tables import UNFINISHED


@dataclass(frozen=True, slots=True)
class Task:
    """One row of tasks."""

    id: str
    user_id: str
    conversation_id: str | None
    type: str
    model: str
    provider: str
    prompt: str
    parameters: dict[str, Any]
    references: list[str]
    price: int
    credits_held: int
    credits_refunded: int
    placeholder_message_id: str | None
    completed_message_id: str | None
    retry_of: str | None
    request_id: str | None
    reference: str
    created_at: datetime
    status: str
    needs_review: bool
    provider_task_id: str | None
    progress: float | None
    trouble: dict[str, Any] | None
    fail_code: str | None
    error: str | None
    poll_count: int
    last_polled_at: datetime | None
    started_at: datetime | None
    deadline_at: datetime
    ended_at: datetime | None

    @property
    def unfinished(self) -> bool:
        """Say whether its end is still to come."""
        return self.status in UNFINISHED


@dataclass(frozen=True, slots=True)
class Outlook:
    """What can be said of a task before its end, in the form callers see; nothing of it once it has ended."""

    estimate: dict[str, Any] | None = None
    queue: dict[str, Any] | None = None
    retry: dict[str, Any] | None = None
    usual: dict[str, Any] | None = None


NO_OUTLOOK = Outlook()

_NAMES = [field.name for field in fields(Task)]


def task_from(row: Row[Any]) -> Task:
    """Read a task from a row that has all its columns."""
    return Task(**{name: getattr(row, name) for name in _NAMES})


def show_task(task: Task, results: Sequence[Mapping[str, Any]] = (), outlook: Outlook = NO_OUTLOOK) -> dict[str, Any]:
    """Return the one form in which every route shows a task."""
    return {
        "id": task.id,
        "status": task.status,
        "type": task.type,
        "model": task.model,
        "prompt": task.prompt,
        "parameters": task.parameters,
        "references": task.references,
        "conversation_id": task.conversation_id,
        "message_id": task.completed_message_id or task.placeholder_message_id,
        "progress": task.progress,
        "estimate": outlook.estimate,
        "usual": outlook.usual,
        "queue": outlook.queue,
        "retry": outlook.retry,
        "needs_review": task.needs_review,
        "trouble": _trouble(task),
        "results": list(results),
        "error": {"code": task.fail_code, "message": task.error} if task.fail_code else None,
        "credits": {"price": task.price, "refunded": task.credits_refunded, "state": _credit_state(task)},
        "poll_count": task.poll_count,
        "last_polled_at": moment(task.last_polled_at),
        "created_at": moment(task.created_at),
        "started_at": moment(task.started_at),
        "deadline_at": moment(task.deadline_at),
        "ended_at": moment(task.ended_at),
        "retry_of": task.retry_of,
        "request_id": task.request_id,
        "urls": {"self": f"/v1/tasks/{task.id}", "cancel": f"/v1/tasks/{task.id}/cancel"},
    }


def moment(value: datetime | None) -> str | None:
    """Return a time as callers read it."""
    return None if value is None else value.isoformat().replace("+00:00", "Z")


def _trouble(task: Task) -> dict[str, Any] | None:
    if not task.unfinished or task.trouble is None:
        return None
    code = task.trouble.get("code", "")
    return {"code": code, "message": trouble_words(code)}


def _credit_state(task: Task) -> str:
    if task.unfinished:
        return "held"
    if task.status == "completed":
        return "refunded" if task.credits_refunded else "captured"
    return "released"
