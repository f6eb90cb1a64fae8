"""The job ``generation.submit``: send a task to its provider once, and never lose what the provider answered."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import structlog

from longtake.adapters.providers.provider import Accepted, Delivered, GenerationRequest, MediaBytes, Provider, Reference
from longtake.adapters.providers.trouble import Trouble, without_key
from longtake.capabilities.generation.jobs import JobContext, Tally
from longtake.capabilities.generation.lost_submits import mark_lost
from longtake.capabilities.generation.submissions import (
    Recorder,
    RunningLimit,
    begin_submission,
    record_accepted,
    record_answer,
)
from longtake.capabilities.generation.tables import SUBMIT, Task
from longtake.capabilities.generation.tasks import Started, Successful, start_task
from longtake.db import Transaction
from longtake.db.retry import TRANSIENT
from longtake.engine.engine import Engine
from longtake.engine.jobs import Job, Priority
from longtake.engine.kinds import JobKind, Settlement
from longtake.engine.outcomes import Done, Fail, Outcome, Snooze
from longtake.errors import (
    AssetGone,
    LeaseLost,
    LongtakeError,
    MediaRefused,
    ProviderError,
    ProviderRefused,
    StorageUnavailable,
    SubmitUnknown,
)
from longtake.services.alerts import Severity, raise_alert
from longtake.services.assets import NewAsset, find_assets, keep_paid_bytes, reference_for_provider

log = structlog.get_logger(__name__)

#: How long a submit waits while its provider's account runs as many tasks as it may.
FULL_SECONDS = 5.0
#: Gemini answers with the image itself, after up to a minute.
TIME_LIMIT = 120.0

ID_REUSED = "PROVIDER_ID_REUSED"


@dataclass(frozen=True, slots=True)
class Unanswered:
    """A submit that the provider may or may not have accepted."""

    reason: str


class SubmitHandler:
    """Runs and settles submits."""

    def __init__(self, context: JobContext) -> None:
        self._context = context
        self._recorder = Recorder(context.database)

    def kind(self) -> JobKind:
        """Return the job kind."""
        return JobKind(SUBMIT, self.run, self.settle, priority=Priority.HIGH, time_limit=TIME_LIMIT, max_attempts=10)

    async def run(self, job: Job) -> Outcome:
        """Submit the task, unless an earlier attempt did."""
        context, provider = self._context, self._context.providers.get(job.args["provider"])
        if provider is None:
            return Fail("PROVIDER_GONE", f"The provider {job.args['provider']} is no longer configured.")
        if not provider.configured:
            return without_key(provider.name)
        task_id, once, limit = str(job.key), provider.submits == "once", self._running_limit(provider)
        try:
            found = await context.database.run(begin_submission, job, task_id, limit, once)
        except LeaseLost:
            # Cancelled in the moment it was claimed: the engine refuses any outcome.
            return Done()
        if found.task is None:
            return Done()
        if found.accepted is not None:
            return Done(data=context.started(found.task.model, found.accepted))
        if found.unanswered:
            return Done(data=Unanswered("the worker that sent it stopped before the answer came"))
        if found.full:
            busy = Trouble("PROVIDER_FULL", f"{provider.name} runs as many tasks as it takes at once.")
            return Snooze(FULL_SECONDS * context.random.uniform(0.8, 1.2), data=busy)
        return await self._submit(job, found.task, provider)

    def _running_limit(self, provider: Provider) -> RunningLimit | None:
        if provider.running_limit is None:
            return None
        account = [one.name for one in self._context.providers.values() if one.account == provider.account]
        return RunningLimit(account, provider.running_limit)

    async def _submit(self, job: Job, task: Task, provider: Provider) -> Outcome:
        breaker = self._context.breaker
        try:
            request = await self._request(task, provider)
            answer = await provider.submit(request)
        except SubmitUnknown as error:
            return await self._unknown(job, task, provider, error)
        except ProviderRefused as error:
            await self._record(task, "refused", error)
            breaker.answered(provider.name)
            return Fail(error.fail_code, error.message)
        except (ProviderError, StorageUnavailable, *TRANSIENT) as error:
            await self._record(task, "refused", error)
            return self._context.wait_out(error, job, provider)
        except LongtakeError as error:
            # Raised before anything was sent: a reference image is gone, for example.
            await self._record(task, "refused", error)
            return Fail(error.code, error.message)
        breaker.answered(provider.name)
        if isinstance(answer, Accepted):
            return await self._accepted(task, answer)
        return await self._delivered(job, task, answer)

    async def _request(self, task: Task, provider: Provider) -> GenerationRequest:
        model = self._context.models.get(task.model)
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

    async def _load_references(self, task: Task, provider: Provider) -> Sequence[Reference]:
        """Return the task's reference images in their order, as links or bytes; AssetGone when one is gone."""
        takes = provider.takes_references
        if not task.references or takes is None:
            return ()
        context = self._context
        found = await context.database.read(find_assets, task.references, task.user_id)
        missing = [one for one in task.references if one not in found]
        if missing:
            raise AssetGone(f"The reference image {missing[0]} is gone.")
        return [
            await reference_for_provider(context.storage, context.links, found[one], takes) for one in task.references
        ]

    def _callback_url(self, task: Task) -> str | None:
        """Return where the provider may report on the task; None when it cannot reach this server."""
        base = self._context.public_url.rstrip("/")
        return f"{base}/v1/callbacks/{task.provider}?reference={task.reference}" if base else None

    async def _accepted(self, task: Task, answer: Accepted) -> Outcome:
        """Record the remote id at once, with or without the lease: it is what the money was spent on."""
        owner = await self._recorder.write(record_accepted, task.id, task.provider, answer.provider_task_id)
        if owner != task.id:
            log.error("one remote id for two tasks", action="refuse", task_id=task.id, other=owner)
            return Fail(ID_REUSED, f"{task.provider} gave this task the id of another task.")
        return Done(data=self._context.started(task.model, answer.provider_task_id))

    async def _delivered(self, job: Job, task: Task, answer: Delivered) -> Outcome:
        """Store the bytes before the task is completed; the lease is part of the key."""
        if not answer.files:
            return Fail("NO_RESULT", f"{task.provider} answered without any file.")
        try:
            results = [await self._store(job, task, number, file) for number, file in enumerate(answer.files)]
        except MediaRefused as error:
            return Fail(error.code, error.message)
        return Done(data=Successful(task.id, results))

    async def _store(self, job: Job, task: Task, position: int, file: MediaBytes) -> NewAsset:
        kind: Any = task.type
        new = NewAsset(user_id=task.user_id, kind=kind, task_id=task.id, position=position)
        return await keep_paid_bytes(self._context.storage, new, file.body, job.lease_token)

    async def _unknown(self, job: Job, task: Task, provider: Provider, error: SubmitUnknown) -> Outcome:
        await self._record(task, "unknown", error)
        if provider.submits == "once":
            return Done(data=Unanswered(error.message))
        # A second request is at worst paid twice, which this provider declares acceptable.
        return self._context.wait_out(error, job, provider)

    async def _record(self, task: Task, fact: str, error: LongtakeError) -> None:
        detail = f"{error.code}: {error.message}"
        await self._recorder.write(record_answer, task.id, task.provider, fact, detail)

    # -- settling ------------------------------------------------------------------------------------------------

    def settle(self, tx: Transaction, engine: Engine, settlements: Sequence[Settlement]) -> None:
        """Write outcomes to the tasks."""
        context, tally = self._context, Tally()
        for one in sorted(settlements, key=lambda settlement: str(settlement.job.key)):
            task_id, name = str(one.job.key), one.job.args["provider"]
            if isinstance(one.outcome, Fail) and one.outcome.code == ID_REUSED:
                _alert_about_reused_id(tx, task_id, name)
            if tally.add(task_id, name, one.outcome):
                continue
            match one.outcome.data:
                case Started() as started:
                    start_task(tx, engine, context.providers[name], task_id, started, context.random)
                case Unanswered(reason=reason):
                    mark_lost(tx, engine, context, context.providers[name], task_id, reason)
        tally.write(tx, context.providers)


def _alert_about_reused_id(tx: Transaction, task_id: str, provider: str) -> None:
    """Alert operators that a provider mixes tasks up: one of the two would have got the other's result."""
    message = f"{provider} gave the task {task_id} the remote id of another task. It was failed and not charged."
    raise_alert(tx, Severity.CRITICAL, "PROVIDER_ID_REUSED", message, subject=provider)
