"""Providers' callbacks, and the job ``generation.attach``: find a submit again whose answer was lost.

A callback is a hint, never a fact: all it can do is make a task's next poll, or such a search, come sooner.

The answer may still come, from a worker that was thought dead; then it is on record. Or a callback names a remote id:
that is only a hint, so the provider is queried for each, one in a run. An id that our key can see and no other task
owns is taken.
A callback that arrives just as an earlier search ends cannot enqueue another; the next sweep does.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

from sqlalchemy import ColumnElement, and_, literal_column, or_, select, update

from longtake.adapters.providers.errors import ProviderTaskNotFound
from longtake.adapters.providers.provider import Provider
from longtake.capabilities.generation.jobs import OUR_BACK_OFF, JobContext, query_task
from longtake.capabilities.generation.submissions import find_lost, record_accepted, record_report
from longtake.capabilities.generation.tables import ATTACH, POLL, TASK_KINDS, UNFINISHED, submissions, tasks
from longtake.capabilities.generation.tasks import Started, start_task
from longtake.db import Transaction
from longtake.db.dialects import later, seconds_until
from longtake.engine.control import look_again
from longtake.engine.engine import Engine
from longtake.engine.events import append_event
from longtake.engine.jobs import Job, JobRequest
from longtake.engine.kinds import JobKind, Settlement
from longtake.engine.outcomes import Done, Fail, Outcome, Snooze
from longtake.engine.tables import jobs
from longtake.services.alerts import Severity, raise_alert, resolve_alert
from longtake.services.provider_calls import ask_provider

#: For so long after a callback, each sweep makes sure that it was looked into.
REPORT_SECONDS = 60.0
#: However many callbacks come, they make no poll start sooner than this after the last one.
REST_SECONDS = 1.0


class LostSubmitHandler:
    """Runs and settles searches for lost submits."""

    def __init__(self, context: JobContext) -> None:
        self._context = context

    def kind(self) -> JobKind:
        return JobKind(ATTACH, self.run, self.settle, max_attempts=40, back_off=OUR_BACK_OFF, permit="call")

    async def run(self, job: Job) -> Outcome:
        """Query the provider for the next remote id that was reported."""
        context, task_id = self._context, str(job.key)
        provider = context.providers.get(job.args["provider"])
        if provider is None:
            return Fail("PROVIDER_GONE", f"The provider {job.args['provider']} is no longer configured.")
        lost = await context.database.read(find_lost, task_id)
        if lost.accepted is not None:
            return Done(data=context.started(lost.model, lost.accepted))
        asked = (job.memo or {}).get("asked", [])
        left = [one for one in sorted(lost.reported) if one not in asked]
        if not left:
            return Done()
        answer = await ask_provider(job, provider, partial(query_task, provider, left[0]), breaker=context.breaker)
        if isinstance(answer, Outcome):
            return answer
        if not isinstance(answer, ProviderTaskNotFound):
            owner = await context.database.run(record_accepted, task_id, provider.name, left[0])
            if owner == task_id:
                return Done(data=context.started(lost.model, left[0]))
        return Snooze(0.0, memo={"asked": [*asked, left[0]]}, progress=True)

    def settle(self, tx: Transaction, engine: Engine, settlements: Sequence[Settlement]) -> None:
        for one in sorted(settlements, key=lambda settlement: str(settlement.job.key)):
            if isinstance(one.outcome, Done) and isinstance(one.outcome.data, Started):
                provider, task_id = self._context.providers[one.job.args["provider"]], str(one.job.key)
                if start_task(tx, engine, provider, task_id, one.outcome.data, self._context.random):
                    resolve_alert(tx, "SUBMIT_UNKNOWN", task_id)


def mark_lost(
    tx: Transaction, engine: Engine, context: JobContext, provider: Provider, task_id: str, reason: str
) -> None:
    """Mark a task for review; its model's deadline runs from now, and a callback may still find it."""
    row = tx.execute(
        update(tasks)
        .where(tasks.c.id == task_id, tasks.c.status == "pending")
        .values(needs_review=True, trouble={"code": "SUBMIT_UNKNOWN", "message": reason})
        .returning(tasks.c.model, tasks.c.user_id)
    ).first()
    if row is None:
        return
    model = context.models.get(row.model)
    if model is not None:
        tx.execute(update(tasks).where(tasks.c.id == task_id).values(deadline_at=later(model.deadline)))
    message = (
        f"{provider.name} may have accepted the task {task_id}, but its answer was lost ({reason})."
        " It is not sent again. If the provider's callback names it, it goes on by itself;"
        " else it ends at its deadline and is not charged."
    )
    raise_alert(tx, Severity.WARNING, "SUBMIT_UNKNOWN", message, subject=task_id)
    append_event(tx, "task.needs_review", subject=task_id, user_id=row.user_id, data={"status": "pending"})
    # A callback may have come before this was written.
    enqueue_attach(tx, engine, provider, task_id)


def enqueue_attach(tx: Transaction, engine: Engine, provider: Provider, task_id: str) -> None:
    """Enqueue a search for a lost submit, unless one is enqueued."""
    engine.enqueue_many(tx, [_search(provider, task_id)])


def enqueue_searches(tx: Transaction, engine: Engine, providers: Mapping[str, Provider]) -> None:
    """Enqueue a missing search for every lost submit whose answer came late, or that a callback named recently."""
    recent = and_(submissions.c.fact == "reported", submissions.c.at > later(-REPORT_SECONDS))
    named = or_(submissions.c.fact == "accepted", recent)
    # Spelled as in the partial index of these few rows, so that SQLite uses it.
    review: ColumnElement[bool] = literal_column("needs_review")
    lost = (review, tasks.c.status == "pending", tasks.c.provider.in_(sorted(providers)))
    found = select(tasks.c.id, tasks.c.provider).distinct().join(submissions, submissions.c.task_id == tasks.c.id)
    rows = tx.execute(found.where(*lost, named).order_by(tasks.c.id))
    engine.enqueue_many(tx, [_search(providers[row.provider], row.id) for row in rows])


def _search(provider: Provider, task_id: str) -> JobRequest:
    lane = provider.query_lane.name
    return JobRequest(ATTACH, {"provider": provider.name}, key=task_id, lane=lane, subject=task_id)


# -- callbacks ---------------------------------------------------------------------------------------------------


def find_callback_task(tx: Transaction, provider: str, reference: str) -> str | None:
    """Return the id of the task that the reference belongs to."""
    ours = (tasks.c.reference == reference, tasks.c.provider == provider)
    return tx.execute(select(tasks.c.id).where(*ours)).scalar()


def take_hint(tx: Transaction, engine: Engine, provider: Provider, task_id: str, provider_task_id: str) -> str:
    """Act on a callback; return what was done, for the log."""
    until_last = seconds_until(tasks.c.last_polled_at).label("until_last")
    columns = (tasks.c.status, tasks.c.needs_review, tasks.c.provider_task_id, until_last)
    find = select(*columns).where(tasks.c.id == task_id)
    row = tx.execute(find).first()
    if row is not None and row.provider_task_id is None:
        # The acceptance may be about to be written to this row. One transaction waits for the other: either the row
        # has the id after the wait, or the transaction that writes it finds the report and polls at once. They meet at
        # the task's jobs, which come before its row in the order of locks.
        of_task = (jobs.c.subject == task_id, jobs.c.kind.in_(TASK_KINDS))
        tx.execute(select(jobs.c.id).where(*of_task).order_by(jobs.c.id).with_for_update()).all()
        row = tx.execute(find).first()
    if row is None or row.status not in UNFINISHED:
        return "ended"
    if row.provider_task_id is not None:
        if row.provider_task_id != provider_task_id:
            return "another id"
        # Poll once after this moment, and soon, even while a poll runs or waits out trouble.
        rested = REST_SECONDS if row.until_last is None else min(max(-row.until_last, 0.0), REST_SECONDS)
        hurried = look_again(tx, POLL, task_id, waiting=REST_SECONDS - rested, running=REST_SECONDS)
        return "hurried" if hurried else "about to be asked"
    if not record_report(tx, task_id, provider.name, provider_task_id):
        return "too many reports"
    if row.needs_review:
        enqueue_attach(tx, engine, provider, task_id)
        return "attaching"
    return "noted"
