"""The job ``generation.submit``: hand a task to its provider once, and never lose what it answered."""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import structlog
from sqlalchemy import update

from longtake.adapters.providers.provider import Accepted, Delivered, GenerationRequest, MediaBytes, Provider, Reference
from longtake.adapters.providers.trouble import Breaker, Trouble, wait_out, without_key
from longtake.adapters.storage import Storage
from longtake.capabilities.generation.models import Model
from longtake.capabilities.generation.outcomes import Tally
from longtake.capabilities.generation.poll_store import alert_about_reused_id, alert_about_unknown
from longtake.capabilities.generation.submission_facts import Facts
from longtake.capabilities.generation.submissions import RunningLimit, begin_submission, record_accepted, record_answer
from longtake.capabilities.generation.tables import ATTACH, SUBMIT, Task, tasks
from longtake.capabilities.generation.tasks import Started, Successful, start_task
from longtake.db import Database, Transaction
from longtake.db.dialects import later
from longtake.db.retry import PASSING
from longtake.engine.engine import Engine
from longtake.engine.events import append_event
from longtake.engine.jobs import Job, Priority
from longtake.engine.kinds import JobKind, Settlement
from longtake.engine.outcomes import Done, Fail, Outcome, Snooze
from longtake.errors import (
    LeaseLost,
    LongtakeError,
    MediaRefused,
    ProviderError,
    ProviderRefused,
    StorageUnavailable,
    SubmitUnknown,
)
from longtake.services.assets import NewAsset, keep_paid_bytes

log = structlog.get_logger(__name__)

#: How long a submit waits when the provider runs as many of our tasks as it takes.
FULL_SECONDS = 5.0
#: Gemini answers with the image itself, after up to a minute.
TIME_LIMIT = 120.0

ID_REUSED = "PROVIDER_ID_REUSED"

LoadReferences = Callable[[Task, Provider], Awaitable[Sequence[Reference]]]
CallbackUrl = Callable[[Task], str | None]


@dataclass(frozen=True, slots=True)
class Unanswered:
    """Nobody knows whether the provider accepted it."""

    reason: str


class Submitting:
    """Runs and settles submits."""

    def __init__(
        self,
        database: Database,
        engine: Callable[[], Engine],
        providers: Mapping[str, Provider],
        models: Mapping[str, Model],
        storage: Storage,
        load_references: LoadReferences,
        callback_url: CallbackUrl,
        breaker: Breaker,
        source: random.Random,
    ) -> None:
        self._database = database
        self._facts = Facts(database)
        self._engine = engine
        self._providers = providers
        self._models = models
        self._storage = storage
        self._load_references = load_references
        self._callback_url = callback_url
        self._breaker = breaker
        self._random = source

    def kind(self) -> JobKind:
        """Return the job kind."""
        return JobKind(SUBMIT, self.run, self.settle, priority=Priority.HIGH, time_limit=TIME_LIMIT, max_attempts=10)

    async def run(self, job: Job) -> Outcome:
        """Submit, or find out that it was done before."""
        provider = self._providers.get(job.args["provider"])
        if provider is None:
            return Fail("PROVIDER_GONE", f"The provider {job.args['provider']} is no longer there.")
        if not provider.configured:
            return without_key(provider.name)
        task_id, once = str(job.key), provider.submits == "once"
        try:
            found = await self._database.run(begin_submission, job, task_id, self._running_limit(provider), once)
        except LeaseLost:
            # Cancelled in the moment it was claimed: whatever is returned now is refused.
            return Done()
        if found.task is None:
            return Done()
        if found.accepted is not None:
            return Done(data=self._started(found.task, found.accepted))
        if found.unanswered:
            return Done(data=Unanswered("the worker that sent it stopped before the answer came"))
        if found.full:
            busy = Trouble("PROVIDER_FULL", f"{provider.name} runs as many tasks as it takes at once.")
            return Snooze(FULL_SECONDS * self._random.uniform(0.8, 1.2), data=busy)
        return await self._submit(job, found.task, provider)

    def _started(self, task: Task, provider_task_id: str) -> Started:
        model = self._models.get(task.model)
        return Started(provider_task_id, None if model is None else model.deadline)

    def _running_limit(self, provider: Provider) -> RunningLimit | None:
        if provider.running_limit is None:
            return None
        account = [one.name for one in self._providers.values() if one.account == provider.account]
        return RunningLimit(account, provider.running_limit)

    async def _submit(self, job: Job, task: Task, provider: Provider) -> Outcome:
        try:
            request = await self._request(task, provider)
            answer = await provider.submit(request)
        except SubmitUnknown as error:
            return await self._unknown(job, task, provider, error)
        except ProviderRefused as error:
            await self._note(task, "refused", error)
            self._breaker.answered(provider.name)
            return Fail(error.fail_code, error.message)
        except (ProviderError, StorageUnavailable, *PASSING) as error:
            await self._note(task, "refused", error)
            return wait_out(error, job, provider.name, self._breaker, self._random)
        except LongtakeError as error:
            # Found before anything was sent: a reference image that is gone, say.
            await self._note(task, "refused", error)
            return Fail(error.code, error.message)
        self._breaker.answered(provider.name)
        if isinstance(answer, Accepted):
            return await self._accepted(task, answer)
        return await self._delivered(job, task, answer)

    async def _request(self, task: Task, provider: Provider) -> GenerationRequest:
        model = self._models.get(task.model)
        if model is None:
            raise ProviderRefused(f"The model {task.model} is no longer offered.", fail_code="MODEL_GONE")
        return GenerationRequest(
            model=model.remote,
            prompt=task.prompt,
            parameters=model.wire_parameters(task.parameters),
            references=await self._load_references(task, provider),
            reference_field=model.reference_field,
            callback_url=self._callback_url(task),
        )

    async def _accepted(self, task: Task, answer: Accepted) -> Outcome:
        """Write the remote id at once, lease or no lease: it is what the money was spent on."""
        owner = await self._facts.write(record_accepted, task.id, task.provider, answer.provider_task_id)
        if owner != task.id:
            log.error("one remote id for two tasks", action="refuse", task_id=task.id, other=owner)
            return Fail(ID_REUSED, f"{task.provider} gave this task the id of another one.")
        return Done(data=self._started(task, answer.provider_task_id))

    async def _delivered(self, job: Job, task: Task, answer: Delivered) -> Outcome:
        """Put the bytes into storage before the task is completed; the lease is part of the key."""
        if not answer.files:
            return Fail("NO_RESULT", f"{task.provider} answered without any file.")
        try:
            results = [await self._keep(job, task, number, file) for number, file in enumerate(answer.files)]
        except MediaRefused as error:
            return Fail(error.code, error.message)
        return Done(data=Successful(task.id, results))

    async def _keep(self, job: Job, task: Task, position: int, file: MediaBytes) -> NewAsset:
        kind: Any = task.type
        new = NewAsset(user_id=task.user_id, kind=kind, task_id=task.id, position=position)
        return await keep_paid_bytes(self._storage, new, file.body, job.lease_token)

    async def _unknown(self, job: Job, task: Task, provider: Provider, error: SubmitUnknown) -> Outcome:
        await self._note(task, "unknown", error)
        if provider.submits == "once":
            return Done(data=Unanswered(error.message))
        # What comes twice is only paid twice: the provider said that this is acceptable.
        return wait_out(error, job, provider.name, self._breaker, self._random)

    async def _note(self, task: Task, fact: str, error: LongtakeError) -> None:
        detail = f"{error.code}: {error.message}"
        await self._facts.write(record_answer, task.id, task.provider, fact, detail)

    # -- settling ------------------------------------------------------------------------------------------------

    def settle(self, tx: Transaction, settlements: Sequence[Settlement]) -> None:
        """Turn outcomes into tasks' rows."""
        engine, tally = self._engine(), Tally()
        for one in sorted(settlements, key=lambda settlement: str(settlement.job.key)):
            task_id, provider = str(one.job.key), one.job.args["provider"]
            if isinstance(one.outcome, Fail) and one.outcome.code == ID_REUSED:
                alert_about_reused_id(tx, task_id, provider)
            if tally.take(task_id, provider, one.outcome):
                continue
            match one.outcome.data:
                case Started() as started:
                    start_task(tx, engine, self._providers[provider], task_id, started, self._random)
                case Unanswered() as unanswered:
                    self._review(tx, engine, task_id, self._providers[provider], unanswered)
        tally.write(tx, self._providers)

    def _review(
        self, tx: Transaction, engine: Engine, task_id: str, provider: Provider, unanswered: Unanswered
    ) -> None:
        """Mark the task for people; the model's deadline runs from now, and a callback may still find it."""
        row = tx.execute(
            update(tasks)
            .where(tasks.c.id == task_id, tasks.c.status == "pending")
            .values(needs_review=True, trouble={"code": "SUBMIT_UNKNOWN", "message": unanswered.reason})
            .returning(tasks.c.model, tasks.c.user_id)
        ).first()
        if row is None:
            return
        model = self._models.get(row.model)
        if model is not None:
            tx.execute(update(tasks).where(tasks.c.id == task_id).values(deadline_at=later(model.deadline)))
        alert_about_unknown(tx, task_id, provider.name, unanswered.reason)
        append_event(tx, "task.needs_review", subject=task_id, user_id=row.user_id, data={"status": "pending"})
        # The callback may have come before this was written.
        lane = provider.query_lane.name
        engine.enqueue(tx, ATTACH, {"provider": provider.name}, key=task_id, lane=lane, subject=task_id)
