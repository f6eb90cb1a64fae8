"""Asking TMDB or Bangumi in a job: an answer, or how the job goes on without one."""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TypeVar, TypeVarTuple

from longtake.adapters.providers.trouble import Breaker, wait_out
from longtake.clock import Clock
from longtake.engine.jobs import Job
from longtake.engine.outcomes import Fail, Outcome, Snooze
from longtake.errors import ProviderError, ProviderRefused

T = TypeVar("T")
Ts = TypeVarTuple("Ts")


@dataclass(frozen=True, slots=True)
class Asking:
    """What all who ask one of them share."""

    name: str
    breaker: Breaker
    source: random.Random
    clock: Clock

    async def ask(self, job: Job, request: Callable[[*Ts], Awaitable[T]], *arguments: *Ts) -> T | Outcome:
        """Return the answer; what will never be answered fails the job, everything else is waited out.

        A job that took so long to find out what to ask for that its permit is over asks for another one.
        """
        if not await job.wait_for_permit(self.clock):
            return Snooze(0.0)
        try:
            found = await request(*arguments)
        except ProviderRefused as error:
            self.breaker.answered(self.name)
            return Fail(error.code, error.message)
        except ProviderError as error:
            return wait_out(error, job, self.name, self.breaker, self.source)
        self.breaker.answered(self.name)
        return found
