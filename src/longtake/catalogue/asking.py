"""Asking TMDB or Bangumi in a job: an answer, or how the job goes on without one."""

from __future__ import annotations

import random
from collections.abc import Awaitable
from dataclasses import dataclass
from typing import TypeVar

from longtake.engine.jobs import Job
from longtake.engine.outcomes import Fail, Outcome
from longtake.errors import ProviderError, ProviderRefused
from longtake.providers.trouble import Breaker, wait_out

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Asking:
    """What all who ask one of them share."""

    name: str
    breaker: Breaker
    source: random.Random

    async def ask(self, job: Job, answer: Awaitable[T]) -> T | Outcome:
        """Return the answer; what will never be answered fails the job, everything else is waited out."""
        try:
            found = await answer
        except ProviderRefused as error:
            self.breaker.answered(self.name)
            return Fail(error.code, error.message)
        except ProviderError as error:
            return wait_out(error, job, self.name, self.breaker, self.source)
        self.breaker.answered(self.name)
        return found
