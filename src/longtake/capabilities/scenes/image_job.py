"""The job ``scenes.image``: ask a provider for one image, keep it, and say how that went.

An image may be asked for three times. What says nothing about the image (too many requests, a quota, a missing key) is
waited out and is no try; the engine counts from zero after such a wait, so what was tried before is in the job's memo.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import structlog

from longtake.adapters.providers.provider import Accepted, Delivered, GenerationRequest, Provider
from longtake.adapters.providers.trouble import Breaker, Trouble, wait_out, without_key
from longtake.adapters.storage import Storage
from longtake.capabilities.scenes.endings import Ended, Made, Returned, end_images, return_images
from longtake.capabilities.scenes.image_start import Begun, begin_image
from longtake.capabilities.scenes.models import SceneModels, lane_name
from longtake.capabilities.scenes.pace import BEGIN_SECONDS
from longtake.capabilities.scenes.queue import MAX_ATTEMPTS
from longtake.capabilities.scenes.tables import IMAGE
from longtake.capabilities.scenes.user_messages import image_words
from longtake.clock import Clock
from longtake.db import Database, Transaction
from longtake.engine.jobs import Job
from longtake.engine.kinds import Exponential, JobKind, Settlement
from longtake.engine.outcomes import Cancelled, Done, Fail, Outcome, Retry, Snooze
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

#: Longer than this in the hands of a worker, an image job is stale and goes back to the queue.
TIME_LIMIT = 60.0
PROVIDER_SECONDS = 25.0
BACK_OFF = Exponential(first=4.0, most=30.0)
#: What passes by itself, or by a person, and says nothing about the image.
NO_TRY = (ProviderBusy, ProviderQuotaSpent, ProviderUnauthorized, ProviderOutOfCredits)


class Making:
    """Runs and settles image jobs."""

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
        """Make the image, unless nobody wants it any more or the moment for it has passed."""
        started = self._clock.monotonic()
        provider = self._providers.get(job.args["provider"])
        if provider is None:
            return Fail("PROVIDER_GONE", f"The provider {job.args['provider']} is no longer there.")
        if not provider.configured:
            return _unspent(job, without_key(provider.name))
        try:
            begun = await self._database.run(begin_image, job, str(job.key), tries(job))
        except LeaseLost:
            # Cancelled in the moment it was claimed: whatever is returned now is refused.
            return Done()
        if begun is None:
            return Done()
        if tries(job) > MAX_ATTEMPTS:
            return Fail(begun.error_code or "CRASHED", "All its tries are spent.")
        if self._clock.monotonic() - started > BEGIN_SECONDS:
            log.info("too late to ask the provider, image given back", action="late", job_id=job.id, lane=job.lane)
            return _unspent(job, Snooze(0.0))
        request = self._models.request(begun.model, begun.prompt, begun.parameters)
        if request is None:
            return Fail("MODEL_GONE", f"The model {begun.model} is no longer offered.")
        return await self._make(job, begun, provider, request, started)

    async def _make(
        self, job: Job, begun: Begun, provider: Provider, request: GenerationRequest, started: float
    ) -> Outcome:
        asked = self._clock.monotonic()
        try:
            async with asyncio.timeout(self._provider_seconds):
                answer = await provider.submit(request)
        except TimeoutError:
            message = f"{provider.name} did not answer within {self._provider_seconds:g} s."
            return self._again(job, "PROVIDER_TIMEOUT", message, slow_lane=self._breaker.failed(provider.name))
        except ProviderRefused as error:
            self._breaker.answered(provider.name)
            return Fail(error.fail_code, error.message, data=error)
        except NO_TRY as error:
            return _unspent(job, wait_out(error, job, provider.name, self._breaker, self._random))
        except ProviderError as error:
            slow = isinstance(error, ProviderUnavailable) and self._breaker.failed(provider.name)
            after = getattr(error, "retry_after", None)
            return self._again(job, error.code, error.message, after=after, slow_lane=slow)
        self._breaker.answered(provider.name)
        if isinstance(answer, Accepted) or not answer.files:
            return Fail("NO_RESULT", f"{provider.name} answered without any file.")
        return await self._keep(job, begun, answer, started, asked)

    async def _keep(self, job: Job, begun: Begun, answer: Delivered, started: float, asked: float) -> Outcome:
        """Put the image into storage before anything says that it is there; the lease is part of its key."""
        answered = self._clock.monotonic()
        new = NewAsset(user_id=begun.user_id, kind="image", role="scene", position=begun.number)
        try:
            kept = await keep_paid_bytes(self._storage, new, answer.files[0].body, job.lease_token)
        except MediaRefused as error:
            return Fail(error.code, error.message)
        except StorageUnavailable as error:
            return self._again(job, error.code, error.message)
        now = self._clock.monotonic()
        times = {"provider_ms": answered - asked, "storage_ms": now - answered, "total_ms": now - started}
        return Done(data=Made(kept, {name: round(seconds * 1000) for name, seconds in times.items()}))

    def _again(self, job: Job, code: str, message: str, **how: Any) -> Outcome:
        """Try again, if this was not the last time."""
        return Fail(code, message) if tries(job) >= MAX_ATTEMPTS else Retry(code, message, **how)

    # -- settling ------------------------------------------------------------------------------------------------

    def settle(self, tx: Transaction, settlements: Sequence[Settlement]) -> None:
        """Turn outcomes into rows, the engine's own verdicts among them: time limits, crashes, spent attempts."""
        made: dict[str, Made] = {}
        ended: dict[str, Ended] = {}
        returned: dict[str, Returned] = {}
        troubles: dict[tuple[str, str], Trouble] = {}
        for one in settlements:
            image_id, outcome = str(one.job.key), one.outcome
            match outcome:
                case Done(data=Made() as done):
                    made[image_id] = done
                case Fail(code=code, data=ProviderRefused() as refused):
                    ended[image_id] = Ended("failed", code, refused.message)
                case Fail(code=code):
                    ended[image_id] = Ended("failed", code, image_words(code))
                case Cancelled():
                    ended[image_id] = Ended("cancelled", "CANCELLED", image_words("CANCELLED"))
                case Retry(code=code):
                    returned[image_id] = Returned(tries(one.job), code, image_words(code))
                case Snooze(code=code):
                    words = None if code is None else image_words(code)
                    returned[image_id] = Returned(tries(one.job) - 1, code, words)
                    if isinstance(outcome.data, Trouble):
                        troubles[one.job.args["provider"], outcome.data.code] = outcome.data
        return_images(tx, returned)
        end_images(tx, made=made, ended=ended)
        for (name, _code), trouble in sorted(troubles.items(), key=lambda item: item[0]):
            provider = self._providers[name]
            act_on_trouble(tx, provider, trouble, also=[lane_name(provider.account)])


def tries(job: Job) -> int:
    """Return the number of this try, those before a wait among them."""
    return int((job.memo or {}).get("spent", 0)) + job.attempt


def _unspent(job: Job, snooze: Snooze) -> Snooze:
    """Return the snooze with a memo that keeps the tries before this one, which is none."""
    memo = snooze.memo if isinstance(snooze.memo, dict) else job.memo or {}
    return replace(snooze, memo={**memo, "spent": tries(job) - 1})
