"""The job ``scenes.image``: ask a provider for one image, store it, and write the outcome.

An image has three tries. An error that says nothing about the image (too many requests, a quota, a missing key) is
waited out and is no try.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import structlog
from sqlalchemy import select, update

from longtake.adapters.providers.provider import Accepted, Delivered, GenerationRequest, Provider
from longtake.adapters.providers.trouble import Breaker, Trouble, wait_out, without_key
from longtake.adapters.storage import Storage
from longtake.capabilities.scenes.endings import (
    EndedImage,
    FinishedImage,
    ReturnedImage,
    end_images,
    image_message,
    return_images,
)
from longtake.capabilities.scenes.models import BEGIN_SECONDS, SceneModels, lane_name
from longtake.capabilities.scenes.queue import MAX_ATTEMPTS
from longtake.capabilities.scenes.tables import IMAGE, IS_LIVE, image_jobs, scene_runs
from longtake.clock import Clock
from longtake.db import Database, Transaction
from longtake.db.dialects import NOW
from longtake.engine.engine import Engine
from longtake.engine.events import append_event
from longtake.engine.jobs import Job
from longtake.engine.kinds import Exponential, JobKind, Settlement
from longtake.engine.leases import fenced
from longtake.engine.outcomes import Cancelled, Done, Fail, Outcome, Retry, Snooze
from longtake.engine.verdicts import unspent
from longtake.errors import (
    LeaseLost,
    MediaRefused,
    ProviderBusy,
    ProviderError,
    ProviderOutOfCredits,
    ProviderQuotaSpent,
    ProviderRefused,
    ProviderUnauthorized,
    ProviderUnavailable,
    StorageUnavailable,
)
from longtake.services.assets import NewAsset, keep_paid_bytes
from longtake.services.provider_calls.lanes import act_on_trouble

log = structlog.get_logger(__name__)

#: A try that takes longer is stopped, and the image job goes back to the queue.
TIME_LIMIT = 60.0
PROVIDER_SECONDS = 25.0
BACK_OFF = Exponential(first=4.0, most=30.0)
#: Errors that pass, or that an operator resolves, and that say nothing about the image.
NO_TRY = (ProviderBusy, ProviderQuotaSpent, ProviderUnauthorized, ProviderOutOfCredits)


@dataclass(frozen=True, slots=True)
class StartedImage:
    """A try that has started: what to ask the provider, and for whom."""

    user_id: str
    number: int
    prompt: str
    model: str
    parameters: dict[str, Any]


class ImageMaker:
    """The job kind ``scenes.image``: asks providers for images and writes the outcomes."""

    def __init__(
        self,
        database: Database,
        providers: Mapping[str, Provider],
        models: SceneModels,
        storage: Storage,
        breaker: Breaker,
        clock: Clock,
        source: random.Random,
        provider_seconds: float = PROVIDER_SECONDS,
    ) -> None:
        self._database = database
        self._providers = providers
        self._models = models
        self._storage = storage
        self._breaker = breaker
        self._clock = clock
        self._random = source
        self._provider_seconds = provider_seconds

    def kind(self) -> JobKind:
        """Return the job kind."""
        return JobKind(
            IMAGE, self.run, self.settle, time_limit=TIME_LIMIT, max_attempts=MAX_ATTEMPTS, back_off=BACK_OFF
        )

    async def run(self, job: Job) -> Outcome:
        """Make the image, unless it was cancelled or the lane's permit is too old."""
        started = self._clock.monotonic()
        provider = self._providers.get(job.args["provider"])
        if provider is None:
            return Fail("PROVIDER_GONE", f"The provider {job.args['provider']} is no longer configured.")
        if not provider.configured:
            return without_key(provider.name)
        try:
            begun = await self._database.run(begin_image, job, str(job.key), job.attempt)
        except LeaseLost:
            # Cancelled while it was claimed: the engine ignores the outcome.
            return Done()
        if begun is None:
            return Done()
        if self._clock.monotonic() - started > BEGIN_SECONDS:
            log.info("too late to ask the provider, image given back", action="late", job_id=job.id, lane=job.lane)
            return Snooze(0.0)
        request = self._models.request(begun.model, begun.prompt, begun.parameters)
        if request is None:
            return Fail("MODEL_GONE", f"The model {begun.model} is no longer offered.")
        return await self._make(job, begun, provider, request, started)

    async def _make(
        self, job: Job, begun: StartedImage, provider: Provider, request: GenerationRequest, started: float
    ) -> Outcome:
        asked = self._clock.monotonic()
        try:
            async with asyncio.timeout(self._provider_seconds):
                answer = await provider.submit(request)
        except TimeoutError:
            message = f"{provider.name} did not answer within {self._provider_seconds:g} s."
            return Retry("PROVIDER_TIMEOUT", message, slow_lane=self._breaker.failed(provider.name))
        except ProviderRefused as error:
            self._breaker.answered(provider.name)
            return Fail(error.fail_code, error.message, data=error)
        except NO_TRY as error:
            return wait_out(error, job, provider.name, self._breaker, self._random)
        except ProviderError as error:
            slow = isinstance(error, ProviderUnavailable) and self._breaker.failed(provider.name)
            after = getattr(error, "retry_after", None)
            return Retry(error.code, error.message, after=after, slow_lane=slow)
        self._breaker.answered(provider.name)
        if isinstance(answer, Accepted) or not answer.files:
            return Fail("NO_RESULT", f"{provider.name} answered without any file.")
        return await self._keep(job, begun, answer, started, asked)

    async def _keep(self, job: Job, begun: StartedImage, answer: Delivered, started: float, asked: float) -> Outcome:
        """Store the image before any row refers to it; the lease is part of its key."""
        answered = self._clock.monotonic()
        new = NewAsset(user_id=begun.user_id, kind="image", role="scene", position=begun.number)
        try:
            kept = await keep_paid_bytes(self._storage, new, answer.files[0].body, job.lease_token)
        except MediaRefused as error:
            return Fail(error.code, error.message)
        except StorageUnavailable as error:
            return Retry(error.code, error.message)
        now = self._clock.monotonic()
        times = {"provider_ms": answered - asked, "storage_ms": now - answered, "total_ms": now - started}
        return Done(data=FinishedImage(kept, {name: round(seconds * 1000) for name, seconds in times.items()}))

    # -- settling ------------------------------------------------------------------------------------------------

    def settle(self, tx: Transaction, _engine: Engine, settlements: Sequence[Settlement]) -> None:
        """Write the outcomes, including those of the engine itself: time limits, crashes, spent attempts."""
        made: dict[str, FinishedImage] = {}
        ended: dict[str, EndedImage] = {}
        returned: dict[str, ReturnedImage] = {}
        troubles: dict[tuple[str, str], Trouble] = {}
        for one in settlements:
            image_id, outcome = str(one.job.key), one.outcome
            match outcome:
                case Done(data=FinishedImage() as done):
                    made[image_id] = done
                case Fail(code=code, data=ProviderRefused() as refused):
                    ended[image_id] = EndedImage("failed", code, refused.message)
                case Fail(code=code):
                    ended[image_id] = EndedImage("failed", code, image_message(code))
                case Cancelled():
                    ended[image_id] = EndedImage("cancelled", "CANCELLED", image_message("CANCELLED"))
                case Retry(code=code):
                    returned[image_id] = ReturnedImage(one.job.attempt, code, image_message(code))
                case Snooze(code=code):
                    message = None if code is None else image_message(code)
                    returned[image_id] = ReturnedImage(unspent(one.job), code, message)
                    if isinstance(outcome.data, Trouble):
                        troubles[one.job.args["provider"], outcome.data.code] = outcome.data
        return_images(tx, returned)
        end_images(tx, made=made, ended=ended)
        for (name, _code), trouble in sorted(troubles.items(), key=lambda item: item[0]):
            provider = self._providers[name]
            act_on_trouble(tx, provider, trouble, also=[lane_name(provider.account)])


def begin_image(tx: Transaction, job: Job, image_id: str, attempt: int) -> StartedImage | None:
    """Write that the try has begun, before the provider is asked; None when the image job is no longer live.

    Raises LeaseLost when another worker holds the job.
    """
    if not fenced(tx, job):
        raise LeaseLost(f"The job {job.id} is leased by another worker or was cancelled.")
    found = (
        select(
            image_jobs.c.user_id,
            image_jobs.c.run_id,
            image_jobs.c.position,
            image_jobs.c.prompt,
            image_jobs.c.max_attempts,
            scene_runs.c.model,
            scene_runs.c.parameters,
        )
        .join(scene_runs, scene_runs.c.id == image_jobs.c.run_id)
        .where(image_jobs.c.id == image_id, IS_LIVE)
    )
    row = tx.execute(found).first()
    if row is None:
        return None
    begun = StartedImage(row.user_id, row.position, row.prompt, row.model, row.parameters)
    if attempt <= row.max_attempts:
        change = {"status": "processing", "attempt": attempt, "started_at": NOW, "retry_at": None}
        tx.execute(update(image_jobs).where(image_jobs.c.id == image_id).values(**change))
        data = {"scene": row.position, "state": "processing", "attempt": attempt, "max_attempts": row.max_attempts}
        append_event(tx, "scene.processing", subject=row.run_id, user_id=row.user_id, data=data)
    return begun
