"""The job ``scenes.image``: ask a provider for one image, store it, and write the outcome.

An image has three tries. An error that says nothing about the image (too many requests, a quota, a missing key) is
waited out and is no try.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Sequence
from functools import partial
from typing import Any

from sqlalchemy import Row, select, update

from longtake.adapters.decoder.errors import MediaRefused
from longtake.adapters.providers.errors import ProviderRefused
from longtake.adapters.providers.provider import Accepted, Delivered, GenerationRequest, Provider
from longtake.adapters.storage.errors import StorageUnavailable
from longtake.capabilities.scenes.models import lane_name
from longtake.capabilities.scenes.queue import MAX_ATTEMPTS
from longtake.capabilities.scenes.runs import (
    EndedImage,
    FinishedImage,
    ReturnedImage,
    end_images,
    image_message,
    return_images,
)
from longtake.capabilities.scenes.tables import IMAGE, IS_LIVE, image_jobs, scene_runs
from longtake.capability import Context
from longtake.db import Transaction
from longtake.db.database import TRANSIENT
from longtake.db.dialects import NOW
from longtake.engine.engine import Engine
from longtake.engine.errors import LeaseLost
from longtake.engine.events import append_event
from longtake.engine.jobs import Job
from longtake.engine.kinds import Exponential, JobKind, Settlement
from longtake.engine.leases import fenced
from longtake.engine.outcomes import Cancelled, Done, Fail, Outcome, Retry, Snooze, unspent
from longtake.services.assets import NewAsset, keep_paid_bytes
from longtake.services.models import OfferedModels
from longtake.services.provider_calls import Breaker, Trouble, act_on_trouble, ask_provider

#: A try that takes longer is stopped, and the image job goes back to the queue.
TIME_LIMIT = 60.0
PROVIDER_SECONDS = 25.0
BACK_OFF = Exponential(first=4.0, most=30.0)


class ImageMaker:
    """The job kind ``scenes.image``: asks providers for images and writes the outcomes."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._models = context.get(OfferedModels).models
        self._breaker = context.get(Breaker)

    def kind(self) -> JobKind:
        return JobKind(
            IMAGE,
            self.run,
            self.settle,
            time_limit=TIME_LIMIT,
            max_attempts=MAX_ATTEMPTS,
            back_off=BACK_OFF,
            permit="call",
        )

    async def run(self, job: Job) -> Outcome:
        """Make the image, unless it was cancelled."""
        provider = self._context.providers.get(job.args["provider"])
        if provider is None:
            return Fail("PROVIDER_GONE", f"The provider {job.args['provider']} is no longer configured.")
        wanted = await self._context.database.read(find_image, str(job.key))
        if wanted is None:
            return Done()
        if wanted.cancelled_at is not None:
            # Its worker or server was killed between the two transactions of the cancel.
            return Cancelled("its run was cancelled")
        model = self._models.get(wanted.model)
        if model is None:
            return Fail("MODEL_GONE", f"The model {wanted.model} is no longer offered.")
        parameters = model.wire_parameters(wanted.parameters)
        request = GenerationRequest(model=model.remote, prompt=wanted.prompt, parameters=parameters)
        writing: list[asyncio.Task[None]] = []
        call = partial(self._call, job, provider, request, writing)
        try:
            try:
                answer = await ask_provider(job, provider, call, PROVIDER_SECONDS, breaker=self._breaker, counted=True)
            finally:
                # Outside the provider's time: an answer that is there must not be lost to a slow database.
                await asyncio.gather(*writing)
        except LeaseLost:
            # Cancelled while it was asked for: the engine ignores the outcome.
            return Done()
        if isinstance(answer, Outcome):
            return answer
        asked, delivered = answer
        if isinstance(delivered, Accepted) or not delivered.files:
            return Fail("NO_RESULT", f"{provider.name} answered without any file.")
        return await self._keep(job, wanted, delivered, asked)

    async def _call(
        self, job: Job, provider: Provider, request: GenerationRequest, writing: list[asyncio.Task[None]]
    ) -> tuple[float, Accepted | Delivered]:
        """Ask the provider at once; that the try has begun is written meanwhile, so that no write delays the call."""
        asked = self._context.clock.monotonic()
        writing.append(asyncio.create_task(self._write_processing(job)))
        return asked, await provider.submit(request)

    async def _write_processing(self, job: Job) -> None:
        # A database that is away does not stop the image; a lost lease does.
        with contextlib.suppress(*TRANSIENT):
            await self._context.database.run(note_processing, job, str(job.key))

    async def _keep(self, job: Job, wanted: Row[Any], answer: Delivered, asked: float) -> Outcome:
        """Store the image before any row refers to it; the lease is part of its key."""
        answered = self._context.clock.monotonic()
        new = NewAsset(user_id=wanted.user_id, kind="image", role="scene", position=wanted.position)
        try:
            kept = await keep_paid_bytes(self._context.storage, new, answer.files[0].body, job.lease_token)
        except MediaRefused as error:
            return Fail(error.code, error.message)
        except StorageUnavailable as error:
            return Retry(error.code, error.message)
        now = self._context.clock.monotonic()
        times = {"provider_ms": answered - asked, "storage_ms": now - answered, "total_ms": now - asked}
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
                case Fail(data=ProviderRefused() as refused):
                    ended[image_id] = EndedImage("failed", refused.fail_code, refused.message)
                case Fail(code=code):
                    ended[image_id] = EndedImage("failed", code, image_message(code))
                case Cancelled():
                    ended[image_id] = EndedImage("cancelled", "CANCELLED", image_message("CANCELLED"))
                case Retry(code=code):
                    returned[image_id] = ReturnedImage(one.job.attempt, code)
                case Snooze(code=code):
                    returned[image_id] = ReturnedImage(unspent(one.job), code)
                    if isinstance(outcome.data, Trouble):
                        troubles[one.job.args["provider"], outcome.data.code] = outcome.data
        return_images(tx, returned)
        end_images(tx, made=made, ended=ended)
        for (name, _code), trouble in sorted(troubles.items(), key=lambda item: item[0]):
            provider = self._context.providers[name]
            act_on_trouble(tx, provider, trouble, also=[lane_name(provider.account)])


def find_image(tx: Transaction, image_id: str) -> Row[Any] | None:
    """Return what to ask for, and for whom; None when the image job is no longer live."""
    columns = (image_jobs.c.user_id, image_jobs.c.position, image_jobs.c.prompt)
    of_run = (scene_runs.c.model, scene_runs.c.parameters, scene_runs.c.cancelled_at)
    found = select(*columns, *of_run).join(scene_runs, scene_runs.c.id == image_jobs.c.run_id)
    return tx.execute(found.where(image_jobs.c.id == image_id, IS_LIVE)).first()


def note_processing(tx: Transaction, job: Job, image_id: str) -> None:
    """Write that a try has begun. Raises LeaseLost when another worker holds the job or it was cancelled."""
    if not fenced(tx, job):
        raise LeaseLost(f"The job {job.id} is leased by another worker or was cancelled.")
    started = {"status": "processing", "attempt": job.attempt, "started_at": NOW, "retry_at": None}
    columns = (image_jobs.c.run_id, image_jobs.c.user_id, image_jobs.c.position, image_jobs.c.max_attempts)
    change = update(image_jobs).where(image_jobs.c.id == image_id, IS_LIVE).values(**started).returning(*columns)
    for row in tx.execute(change).all():
        data = {"scene": row.position, "state": "processing", "attempt": job.attempt, "max_attempts": row.max_attempts}
        append_event(tx, "scene.processing", subject=row.run_id, user_id=row.user_id, data=data)
