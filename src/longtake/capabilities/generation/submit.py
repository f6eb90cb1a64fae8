"""The job ``generation.submit``: send a task to its provider once, and never lose what the provider answered."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import structlog

from longtake.adapters.decoder.errors import MediaRefused
from longtake.adapters.providers.errors import ProviderError, SubmitUnknown
from longtake.adapters.providers.provider import Accepted, Delivered, GenerationRequest, Provider, Reference
from longtake.adapters.storage.errors import StorageUnavailable
from longtake.capabilities.generation.jobs import OUR_BACK_OFF, JobContext, Tally
from longtake.capabilities.generation.lost_submits import mark_lost
from longtake.capabilities.generation.submissions import (
    Recorder,
    RunningLimit,
    read_submission,
    record_accepted,
    record_fact,
    record_intent,
)
from longtake.capabilities.generation.tables import SUBMIT, Task
from longtake.capabilities.generation.tasks import Started, Successful, start_task
from longtake.db import Transaction
from longtake.db.database import TRANSIENT
from longtake.engine.engine import Engine
from longtake.engine.errors import LeaseLost
from longtake.engine.jobs import Job, Priority
from longtake.engine.kinds import JobKind, Settlement
from longtake.engine.outcomes import Done, Fail, Outcome, Snooze
from longtake.errors import LongtakeError
from longtake.services.alerts import Severity, raise_alert
from longtake.services.assets import NewAsset, find_assets, keep_paid_bytes, reference_for_provider
from longtake.services.assets.errors import AssetGone
from longtake.services.models import Model
from longtake.services.provider_calls import Trouble, ask_provider, wait_out

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
        return JobKind(
            SUBMIT,
            self.run,
            self.settle,
            priority=Priority.HIGH,
            time_limit=TIME_LIMIT,
            max_attempts=30,
            back_off=OUR_BACK_OFF,
            permit="call",
        )

    async def run(self, job: Job) -> Outcome:
        """Submit the task, unless an earlier attempt did."""
        context, provider = self._context, self._context.providers.get(job.args["provider"])
        if provider is None:
            return Fail("PROVIDER_GONE", f"The provider {job.args['provider']} is no longer configured.")
        limit, once = self._running_limit(provider), provider.submits == "once"
        found = await context.database.read(read_submission, str(job.key), limit, once)
        if found.task is None:
            return Done()
        if found.accepted is not None:
            return Done(data=context.started(found.task.model, found.accepted))
        if found.unanswered:
            return Done(data=Unanswered("the worker that sent it stopped before the answer came"))
        return self._full(provider) if found.full else await self._submit(job, found.task, provider)

    def _running_limit(self, provider: Provider) -> RunningLimit | None:
        if provider.running_limit is None:
            return None
        account = [one.name for one in self._context.providers.values() if one.account == provider.account]
        return RunningLimit(account, provider.running_limit)

    def _full(self, provider: Provider) -> Snooze:
        full = Trouble("PROVIDER_FULL", f"{provider.name} runs as many tasks as it takes at once.")
        return Snooze(FULL_SECONDS * self._context.random.uniform(0.8, 1.2), data=full)

    async def _submit(self, job: Job, task: Task, provider: Provider) -> Outcome:
        """Read what the request needs, then send it at the time of the lane's permit."""
        model = self._context.models.get(task.model)
        if model is None:
            return Fail("MODEL_GONE", f"The model {task.model} is no longer offered.")
        try:
            request = await self._request(task, provider, model)
        except (StorageUnavailable, *TRANSIENT) as error:
            return wait_out(error, job)
        except LongtakeError as error:
            # A reference image is gone, for example.
            return Fail(error.code, error.message)
        send = partial(self._send, job, task, provider, request)
        try:
            answer = await ask_provider(job, provider, send, breaker=self._context.breaker)
        except LeaseLost:
            # Cancelled in the moment it was to be sent: the engine refuses any outcome.
            return Done()
        if isinstance(answer, Outcome):
            return answer
        if isinstance(answer, Accepted):
            return Done(data=self._context.started(task.model, answer.provider_task_id))
        return await self._delivered(job, task, answer)

    async def _send(
        self, job: Job, task: Task, provider: Provider, request: GenerationRequest
    ) -> Accepted | Delivered | Outcome:
        """Write the intent, send the request, and write what was answered before anything else happens."""
        if not await self._context.database.run(record_intent, job, task, self._running_limit(provider)):
            return self._full(provider)
        try:
            answer = await provider.submit(request)
        except SubmitUnknown as error:
            await self._record(task, "unknown", error)
            if provider.submits == "once":
                return Done(data=Unanswered(error.message))
            # A second request is at worst paid twice, which this provider declares acceptable.
            raise
        except ProviderError as error:
            await self._record(task, "refused", error)
            raise
        except LongtakeError as error:
            await self._record(task, "refused", error)
            return Fail(error.code, error.message)
        if isinstance(answer, Accepted):
            # With or without the lease: the remote id is what the money was spent on.
            owner = await self._recorder.write(record_accepted, task.id, task.provider, answer.provider_task_id)
            if owner != task.id:
                log.error("one remote id for two tasks", action="refuse", task_id=task.id, other=owner)
                return Fail(ID_REUSED, f"{task.provider} gave this task the id of another task.")
        return answer

    async def _request(self, task: Task, provider: Provider, model: Model) -> GenerationRequest:
        base = self._context.public_url.rstrip("/")
        return GenerationRequest(
            model=model.remote,
            prompt=task.prompt,
            parameters=model.wire_parameters(task.parameters),
            references=await self._load_references(task, provider),
            reference_field=model.reference_field,
            # Where the provider may report on the task, if it can reach this server.
            callback_url=f"{base}/v1/callbacks/{task.provider}?reference={task.reference}" if base else None,
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

    async def _delivered(self, job: Job, task: Task, answer: Delivered) -> Outcome:
        """Store the bytes before the task is completed; the lease is part of the key."""
        if not answer.files:
            return Fail("NO_RESULT", f"{task.provider} answered without any file.")
        kind: Any = task.type
        results = []
        try:
            for position, file in enumerate(answer.files):
                new = NewAsset(user_id=task.user_id, kind=kind, task_id=task.id, position=position)
                results.append(await keep_paid_bytes(self._context.storage, new, file.body, job.lease_token))
        except MediaRefused as error:
            return Fail(error.code, error.message)
        return Done(data=Successful(task.id, results))

    async def _record(self, task: Task, fact: str, error: LongtakeError) -> None:
        detail = f"{error.code}: {error.message}"
        await self._recorder.write(record_fact, task.id, task.provider, fact, detail)

    # -- settling ------------------------------------------------------------------------------------------------

    def settle(self, tx: Transaction, engine: Engine, settlements: Sequence[Settlement]) -> None:
        context, tally = self._context, Tally()
        _alert_about_reused_ids(tx, settlements)
        for one in sorted(settlements, key=lambda settlement: str(settlement.job.key)):
            task_id, name = str(one.job.key), one.job.args["provider"]
            if tally.add(task_id, name, one.outcome):
                continue
            match one.outcome.data:
                case Started() as started:
                    start_task(tx, engine, context.providers[name], task_id, started, context.random)
                case Unanswered(reason=reason):
                    mark_lost(tx, engine, context, context.providers[name], task_id, reason)
        tally.write(tx, context.providers)


def _alert_about_reused_ids(tx: Transaction, settlements: Sequence[Settlement]) -> None:
    """Alert operators to providers that mix tasks up: one of the two would have got the other's result.

    Called before any row of a task is locked: no other settle raises these alerts.
    """
    mixed_up = {
        str(one.job.args["provider"]): one.job.key
        for one in settlements
        if isinstance(one.outcome, Fail) and one.outcome.code == ID_REUSED
    }
    for provider, task_id in sorted(mixed_up.items()):
        message = f"{provider} gave the task {task_id} the remote id of another task. It was failed and not charged."
        raise_alert(tx, Severity.CRITICAL, "PROVIDER_ID_REUSED", message, subject=provider)
