"""The job ``generation.poll``: query the provider about one task, and end the task when the provider has."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

from sqlalchemy import bindparam, or_, update

from longtake.adapters.providers.errors import ProviderTaskNotFound
from longtake.adapters.providers.provider import Failed, MediaUrl, Running, Strange, Succeeded
from longtake.capabilities.generation.jobs import OUR_BACK_OFF, QUERY_SECONDS, JobContext, Tally, query_task
from longtake.capabilities.generation.tables import POLL, UNFINISHED, tasks
from longtake.capabilities.generation.tasks import Successful, next_poll
from longtake.db import Transaction
from longtake.db.dialects import NOW
from longtake.engine.control import cancel
from longtake.engine.engine import Engine
from longtake.engine.events import append_event
from longtake.engine.jobs import Job
from longtake.engine.kinds import JobKind, Settlement
from longtake.engine.outcomes import Done, Fail, Outcome, Retry, Snooze
from longtake.services.alerts import Severity, raise_alert
from longtake.services.assets import NewAsset
from longtake.services.provider_calls import Trouble, ask_provider, quiet_memo

TIME_LIMIT = 30.0
#: A provider's replicas may lag: a first "not found" is checked once more before the task fails.
LOOK_AGAIN_SECONDS = 5.0


class PollHandler:
    """Runs and settles polls."""

    def __init__(self, context: JobContext) -> None:
        self._context = context

    def kind(self) -> JobKind:
        """Return the job kind. Trouble with the provider snoozes the job; attempts count only our own failures."""
        return JobKind(
            POLL,
            self.run,
            self.settle,
            time_limit=TIME_LIMIT,
            max_attempts=100,
            back_off=OUR_BACK_OFF,
            permit="call",
        )

    async def run(self, job: Job) -> Outcome:
        provider = self._context.providers.get(job.args["provider"])
        if provider is None:
            return Fail("PROVIDER_GONE", f"The provider {job.args['provider']} is no longer configured.")
        query = partial(query_task, provider, job.args["id"])
        answer = await ask_provider(job, provider, query, QUERY_SECONDS, breaker=self._context.breaker)
        if isinstance(answer, Outcome):
            return answer
        match answer:
            case ProviderTaskNotFound(code=code, message=message) if not (job.memo or {}).get("not_found"):
                trouble = Trouble(code, message)
                return Snooze(LOOK_AGAIN_SECONDS, memo={"not_found": 1}, data=trouble, code=code)
            case ProviderTaskNotFound(message=message):
                return Fail("TASK_NOT_FOUND", message)
            case Running() | Strange():
                seconds = next_poll(job.snoozes + 1, self._context.random)
                return Snooze(seconds, memo=quiet_memo(job), progress=True, data=answer)
            case Failed(code=code, message=message):
                return Fail(code, message)
            case Succeeded(files=()):
                return Fail("NO_RESULT", f"{provider.name} completed the task without any file.")
            case Succeeded(files=files, expires_in=expires_in):
                return Done(data=Successful(str(job.key), _results(job, files, expires_in)))

    # -- settling ------------------------------------------------------------------------------------------------

    def settle(self, tx: Transaction, _engine: Engine, settlements: Sequence[Settlement]) -> None:
        """Write outcomes to the tasks; polls that changed nothing share one statement."""
        tally, progress, unknown = Tally(), dict[str, float | None](), dict[str, str]()
        for one in settlements:
            task_id, provider = str(one.job.key), one.job.args["provider"]
            if tally.add(task_id, provider, one.outcome):
                continue
            match one.outcome.data:
                case Strange(word=word):
                    unknown[provider] = word
                case Running(progress=value) if value is not None or one.job.memo:
                    progress[task_id] = value
        # Before any row of a task: no other settle raises these alerts.
        for provider, word in sorted(unknown.items()):
            happened = f"{provider} answered with the unknown state {word[:80]!r}."
            message = f"{happened} Its tasks stay running and are polled again."
            raise_alert(tx, Severity.WARNING, "PROVIDER_STATE_UNKNOWN", message, subject=provider)
        unfinished = _count_polls(tx, [str(one.job.key) for one in settlements])
        for one in settlements:
            # Its task has ended while its submit became this poll, or before an operator retried the job.
            if one.job.key not in unfinished and isinstance(one.outcome, Snooze | Retry):
                cancel(tx, one.job.id, "its task has ended")
        tally.write(tx, self._context.providers)
        _write_progress(tx, progress)


def _count_polls(tx: Transaction, task_ids: Sequence[str]) -> set[str]:
    """Count a poll of each task; return the tasks that are unfinished. The others need no further polls."""
    if not task_ids:
        return set()
    polled = (tasks.c.id.in_(sorted(task_ids)), tasks.c.status.in_(UNFINISHED))
    counted = update(tasks).where(*polled).values(poll_count=tasks.c.poll_count + 1, last_polled_at=NOW)
    return set(tx.execute(counted.returning(tasks.c.id)).scalars())


def _write_progress(tx: Transaction, progress: Mapping[str, float | None]) -> None:
    """Write progress and clear troubles; add an event only where something changed."""
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


def _results(job: Job, files: Sequence[MediaUrl], expires_in: float) -> list[NewAsset]:
    task_id, args = str(job.key), job.args
    return [
        NewAsset(
            user_id=args["user"],
            kind=args["type"],
            task_id=task_id,
            position=position,
            source_url=file.url,
            source_expires_in=expires_in,
        )
        for position, file in enumerate(files)
    ]
