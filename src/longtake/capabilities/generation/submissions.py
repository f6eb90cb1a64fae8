"""Checks requests, and keeps the insert-only record of what was sent to providers and what they answered.

A paid submit is sent once. The intent is written before it is sent, the answer right after. A worker that finds an
intent without an answer does not send again: the first request may have arrived.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar, TypeVarTuple

from sqlalchemy import bindparam, func, insert, select
from sqlalchemy.dialects import postgresql, sqlite

from longtake.capabilities.generation.errors import InvalidReferences
from longtake.capabilities.generation.tables import Task, submissions, task_from, tasks
from longtake.db import Database, Transaction
from longtake.db.database import retry_until_available
from longtake.db.dialects import NOW, POSTGRESQL, SQLITE, Identifier
from longtake.db.prepared import Prepared
from longtake.engine.errors import LeaseLost
from longtake.engine.jobs import Job
from longtake.engine.leases import fenced
from longtake.services.models import Model, check_parameters, check_prompt


@dataclass(frozen=True, slots=True)
class CheckedRequest:
    """A valid request with all defaults filled in."""

    model: Model
    prompt: str
    parameters: dict[str, Any]
    references: tuple[str, ...]
    conversation_id: str | None


def check_request(
    model: Model,
    prompt: str,
    parameters: Mapping[str, Any],
    references: Sequence[str],
    conversation_id: str | None,
) -> CheckedRequest:
    """Return the request with its defaults, or raise what is wrong with it."""
    least, most = model.references
    if not least <= len(references) <= most or len(set(references)) != len(references):
        wanted = f"{least} to {most}" if least < most else f"{most}" if most else "no"
        # A reference given twice counts as invalid; say so.
        different = "different " if len(set(references)) != len(references) else ""
        raise InvalidReferences(
            f"{model.name} takes {wanted} {different}reference images; given: {len(references)}.",
            least=least,
            most=most,
        )
    checked = check_parameters(model, parameters)
    return CheckedRequest(model, check_prompt(model, prompt), checked, tuple(references), conversation_id)


R = TypeVar("R")
Ts = TypeVarTuple("Ts")

#: Forged callbacks must not fill the table.
REPORTS_LIMIT = 5
DETAIL_LIMIT = 500

_IDENTIFIED = bindparam("task_id", type_=Identifier)
FIND = Prepared(select(*tasks.columns).where(tasks.c.id == _IDENTIFIED))
FACTS = Prepared(
    select(submissions.c.fact, submissions.c.provider_task_id)
    .where(submissions.c.task_id == _IDENTIFIED, submissions.c.fact != "reported")
    .order_by(submissions.c.number)
)
ADD = Prepared(
    insert(submissions).values(
        **{name: bindparam(name) for name in ("task_id", "provider", "fact", "provider_task_id", "detail")}, at=NOW
    )
)
ACCEPT = {
    name: Prepared(
        dialect.insert(submissions)
        .values(**{one: bindparam(one) for one in ("task_id", "provider", "provider_task_id")}, fact="accepted", at=NOW)
        .on_conflict_do_nothing()
        .returning(submissions.c.task_id)
    )
    for name, dialect in ((SQLITE, sqlite), (POSTGRESQL, postgresql))
}
OWNER = Prepared(
    select(submissions.c.task_id).where(
        submissions.c.provider == bindparam("provider"),
        submissions.c.provider_task_id == bindparam("provider_task_id"),
        submissions.c.fact == "accepted",
    )
)
REPORTED = Prepared(
    select(submissions.c.provider_task_id)
    .where(submissions.c.task_id == _IDENTIFIED, submissions.c.fact == "reported")
    .distinct()
)


@dataclass(frozen=True, slots=True)
class Submission:
    """What a worker finds when it takes up a submit; it may send only if the task is all it finds."""

    #: None when there is nothing to submit any more.
    task: Task | None
    #: The remote id, if the provider accepted before and only the task's row was not written.
    accepted: str | None = None
    #: An earlier request has no answer: it may have been accepted.
    unanswered: bool = False
    #: The provider's account runs as many tasks as it may.
    full: bool = False


@dataclass(frozen=True, slots=True)
class LostSubmit:
    """A submit whose answer was lost: the remote id if the answer came late, and those that callbacks named."""

    model: str = ""
    accepted: str | None = None
    reported: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class RunningLimit:
    """How many tasks an account runs at once; several providers may share it."""

    providers: Sequence[str]
    most: int


class Recorder:
    """Writes what a provider answered, even when the handler that learned it is stopped.

    A lease may be lost and a time limit reached at any moment, but the answer was paid for and is known nowhere else.
    So the write goes on by itself for as long as the process lives.
    """

    def __init__(self, database: Database) -> None:
        self._database = database
        #: The event loop itself keeps no task alive.
        self._writes: set[asyncio.Task[Any]] = set()

    async def write(self, function: Callable[[Transaction, *Ts], R], *arguments: *Ts) -> R:
        """Write, however long the database is away; cancelling the caller ends the wait, not the write."""
        task = asyncio.create_task(retry_until_available(self._database.run, function, *arguments))
        self._writes.add(task)
        task.add_done_callback(self._writes.discard)
        return await asyncio.shield(task)


def read_submission(
    tx: Transaction,
    task_id: str,
    limit: RunningLimit | None,
    once: bool,  # noqa: FBT001 - called through Database.read, which passes positions only
) -> Submission:
    """Return what is to be submitted, and what is known of earlier tries.

    Only the holder of the job's lease writes intents, so this stays true for as long as the lease holds.
    """
    rows = tx.run(FIND, task_id=task_id)
    if not rows or rows[0].status != "pending" or rows[0].needs_review:
        return Submission(None)
    task = task_from(rows[0])
    facts = tx.run(FACTS, task_id=task_id)
    accepted = next((fact.provider_task_id for fact in facts if fact.fact == "accepted"), None)
    if accepted is not None:
        return Submission(task, accepted=accepted)
    if once and facts and facts[-1].fact in {"intended", "unknown"}:
        return Submission(task, unanswered=True)
    return Submission(task, full=is_full(tx, limit))


def record_intent(tx: Transaction, job: Job, task: Task, limit: RunningLimit | None) -> bool:
    """Write that the task is about to be sent; return False, and write nothing, when its account is full.

    Raises LeaseLost for a job that another worker holds or that was cancelled.
    """
    if not fenced(tx, job):
        raise LeaseLost(f"The job {job.id} is no longer ours.")
    if is_full(tx, limit):
        return False
    record_fact(tx, task.id, task.provider, "intended")
    return True


def is_full(tx: Transaction, limit: RunningLimit | None) -> bool:
    """Return whether the account runs as many tasks as it may."""
    if limit is None:
        return False
    running = (tasks.c.provider.in_(limit.providers), tasks.c.status == "running")
    return int(tx.execute(select(func.count()).select_from(tasks).where(*running)).scalar_one()) >= limit.most


def record_fact(
    tx: Transaction,
    task_id: str,
    provider: str,
    fact: str,
    detail: str | None = None,
    provider_task_id: str | None = None,
) -> None:
    """Write a fact: with ``detail``, that the provider refused, or that its answer is unknown."""
    values = {"task_id": task_id, "provider": provider, "fact": fact, "provider_task_id": provider_task_id}
    tx.run(ADD, **values, detail=detail and detail[:DETAIL_LIMIT])


def record_accepted(tx: Transaction, task_id: str, provider: str, provider_task_id: str) -> str:
    """Write that the provider accepted; return the id of the task that owns the remote id: this one, or another."""
    remote = {"provider": provider, "provider_task_id": provider_task_id}
    written = tx.run(ACCEPT[tx.dialect], task_id=task_id, **remote) or tx.run(OWNER, **remote)
    return str(written[0].task_id)


def record_report(tx: Transaction, task_id: str, provider: str, provider_task_id: str) -> bool:
    """Write the remote id that a callback names; return False when the task has too many reports already."""
    reported = reported_ids(tx, task_id)
    if provider_task_id in reported:
        return True
    if len(reported) >= REPORTS_LIMIT:
        return False
    record_fact(tx, task_id, provider, "reported", provider_task_id=provider_task_id)
    return True


def find_lost(tx: Transaction, task_id: str) -> LostSubmit:
    """Return what is known about a submit whose answer was lost; empty when the task goes on or has ended."""
    lost = (tasks.c.id == task_id, tasks.c.status == "pending", tasks.c.needs_review)
    model = tx.execute(select(tasks.c.model).where(*lost)).scalar()
    if model is None:
        return LostSubmit()
    acceptance = (submissions.c.task_id == task_id, submissions.c.fact == "accepted")
    accepted = tx.execute(select(submissions.c.provider_task_id).where(*acceptance)).scalar()
    return LostSubmit(model, accepted, reported_ids(tx, task_id))


def reported_ids(tx: Transaction, task_id: str) -> list[str]:
    """Return the remote ids that callbacks named for the task. They are hints: query each before believing it."""
    return [row.provider_task_id for row in tx.run(REPORTED, task_id=task_id)]
