"""The job ``generation.poll``: ask about one task, and end it when the provider has."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import structlog

from longtake.adapters.providers.provider import Failed, MediaUrl, Provider, Running, Strange, Succeeded
from longtake.adapters.providers.trouble import Breaker, Trouble, quiet_memo, wait_out, without_key
from longtake.capabilities.generation.intervals import next_poll
from longtake.capabilities.generation.outcomes import Tally
from longtake.capabilities.generation.poll_store import alert_about_word, count_polls, write_progress
from longtake.capabilities.generation.tables import POLL
from longtake.capabilities.generation.tasks import Successful
from longtake.db import Transaction
from longtake.engine.control import cancel
from longtake.engine.engine import Engine
from longtake.engine.jobs import Job
from longtake.engine.kinds import Exponential, JobKind, Settlement
from longtake.engine.outcomes import Done, Fail, Outcome, Retry, Snooze
from longtake.errors import LongtakeError, ProviderError, ProviderTaskNotFound, ProviderUnavailable
from longtake.services.assets import NewAsset

log = structlog.get_logger(__name__)

#: A query has 10 s; the rest is for waiting until a connection is free.
TIME_LIMIT = 30.0
#: A provider's copies may lag behind each other: one "not found" is asked about again before the task is given up.
LOOK_AGAIN_SECONDS = 5.0


@dataclass(frozen=True, slots=True)
class Polled:
    """The provider still works on it."""

    progress: float | None = None
    strange_word: str | None = None


class Polling:
    """Runs and settles polls."""

    def __init__(
        self,
        engine: Callable[[], Engine],
        providers: Mapping[str, Provider],
        breaker: Breaker,
        source: random.Random,
    ) -> None:
        self._engine = engine
        self._providers = providers
        self._breaker = breaker
        self._random = source

    def kind(self) -> JobKind:
        """Return the job kind. Trouble is snoozed, not counted: attempts are for our own mistakes."""
        return JobKind(
            POLL, self.run, self.settle, time_limit=TIME_LIMIT, max_attempts=50, back_off=Exponential(5.0, 120.0)
        )

    async def run(self, job: Job) -> Outcome:
        """Ask once."""
        provider = self._providers.get(job.args["provider"])
        if provider is None:
            return Fail("PROVIDER_GONE", f"The provider {job.args['provider']} is no longer there.")
        return await self._ask(job, provider) if provider.configured else without_key(provider.name)

    async def _ask(self, job: Job, provider: Provider) -> Outcome:
        try:
            answer = await provider.query(job.args["id"])
        except ProviderTaskNotFound as error:
            self._breaker.answered(provider.name)
            return self._not_found(job, error)
        except ProviderError as error:
            return wait_out(error, job, provider.name, self._breaker, self._random)
        except LongtakeError as error:
            unavailable = ProviderUnavailable(error.message)
            return wait_out(unavailable, job, provider.name, self._breaker, self._random)
        self._breaker.answered(provider.name)
        match answer:
            case Running(progress=progress):
                return self._again(job, Polled(progress))
            case Strange(word=word):
                return self._again(job, Polled(strange_word=word))
            case Failed(code=code, message=message):
                return Fail(code, message)
            case Succeeded(files=()):
                return Fail("NO_RESULT", f"{provider.name} calls the task done and names no file.")
            case Succeeded(files=files, expires_in=expires_in):
                return Done(data=Successful(str(job.key), _results(job, files, expires_in)))

    def _again(self, job: Job, polled: Polled) -> Snooze:
        return Snooze(next_poll(job.snoozes + 1, self._random), memo=quiet_memo(job), data=polled)

    def _not_found(self, job: Job, error: ProviderTaskNotFound) -> Outcome:
        if not (job.memo or {}).get("not_found"):
            trouble = Trouble(error.code, error.message)
            return Snooze(LOOK_AGAIN_SECONDS, memo={"not_found": 1}, data=trouble, code=error.code)
        return Fail("TASK_NOT_FOUND", error.message)

    # -- settling ------------------------------------------------------------------------------------------------

    def settle(self, tx: Transaction, settlements: Sequence[Settlement]) -> None:
        """Turn outcomes into tasks' rows; a poll that changed nothing costs a share of one statement."""
        tally, progress = Tally(), dict[str, float | None]()
        for one in settlements:
            task_id, provider = str(one.job.key), one.job.args["provider"]
            if tally.take(task_id, provider, one.outcome):
                continue
            match one.outcome.data:
                case Polled(strange_word=str() as word):
                    alert_about_word(tx, provider, word)
                case Polled(progress=value) if value is not None or one.job.memo:
                    progress[task_id] = value
        unfinished = count_polls(tx, [str(one.job.key) for one in settlements])
        self._stop_following(tx, [one for one in settlements if one.job.key not in unfinished])
        tally.write(tx, self._providers)
        write_progress(tx, progress)

    def _stop_following(self, tx: Transaction, settlements: Sequence[Settlement]) -> None:
        """End polls whose task has ended: it did so while its submit became this poll, or somebody retried the job."""
        for one in settlements:
            if isinstance(one.outcome, Snooze | Retry):
                cancel(tx, one.job.id, "its task has ended")


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
