"""Kinds of jobs: a handler, what happens to its outcomes, and the policy for its failures."""

from __future__ import annotations

import inspect
import math
import random
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, get_args

from longtake.db import Transaction
from longtake.engine.errors import InvalidDefinition
from longtake.engine.jobs import Job, Priority

if TYPE_CHECKING:
    from longtake.engine.engine import Engine
    from longtake.engine.outcomes import Outcome

NAME_LIMIT = 100

PermitUse = Literal["start", "call"]


@dataclass(frozen=True, slots=True)
class Steps:
    """Waits of fixed length, in order; the last one is used for all that follow."""

    seconds: Sequence[float]

    def __post_init__(self) -> None:
        if not self.seconds or min(self.seconds) < 0:
            raise InvalidDefinition(f"The back-off {self.seconds!r} must be one or more waits of 0 or more seconds.")

    def delay(self, attempt: int, _random: random.Random) -> float:
        """Return how long to wait after this attempt (the first is 1)."""
        return self.seconds[min(attempt, len(self.seconds)) - 1]


@dataclass(frozen=True, slots=True)
class Exponential:
    """Waits that double, spread by up to half so that failures do not come back together."""

    first: float = 2.0
    most: float = 600.0

    def delay(self, attempt: int, random: random.Random) -> float:
        """Return how long to wait after this attempt (the first is 1)."""
        # An exponent past 32 could only overflow: the cap is reached long before.
        return min(self.first * math.pow(2, min(attempt - 1, 32)), self.most) * random.uniform(0.5, 1.0)


BackOff = Steps | Exponential


@dataclass(frozen=True, slots=True)
class Settlement:
    """One job's outcome, to be turned into domain rows.

    The engine's own verdicts come the same way: a job that crashed for the last time, or has no attempt left, is a
    settlement with ``Fail``. So a hold opened for a job is always closed in the transaction that ends it.
    """

    job: Job
    outcome: Outcome


Handler = Callable[[Job], Awaitable["Outcome"]]
Settle = Callable[[Transaction, "Engine", Sequence[Settlement]], None]


@dataclass(frozen=True)
class JobKind:
    """How jobs of one name are run. Declared explicitly, never by import."""

    name: str
    handler: Handler
    settle: Settle | None = None
    lane: str = "default"
    priority: int = Priority.NORMAL
    time_limit: float = 60.0
    max_attempts: int = 5
    back_off: BackOff = field(default_factory=Exponential)
    back_off_by_code: Mapping[str, BackOff] = field(default_factory=dict)
    #: What a permit of its lane is for: the start of the handler, or the call before which that awaits `job.permit()`.
    permit: PermitUse = "start"

    def __post_init__(self) -> None:
        problem = self._problem()
        if problem:
            raise InvalidDefinition(f"The job kind {self.name!r} {problem}.")

    def _problem(self) -> str | None:
        if not self.name or len(self.name) > NAME_LIMIT:
            return f"must have a name of 1 to {NAME_LIMIT} characters"
        call = self.handler if inspect.isroutine(self.handler) else getattr(self.handler, "__call__", None)  # noqa: B004
        if not inspect.iscoroutinefunction(call):
            return "has a handler that is not an async function; call blocking code by asyncio.to_thread inside one"
        if self.priority not in tuple(Priority):
            return f"has priority {self.priority!r}; it must be 0 (top) to 3 (low)"
        if self.time_limit <= 0:
            return f"has a time limit of {self.time_limit!r} s; it must be positive"
        if self.max_attempts < 1:
            return f"has max_attempts {self.max_attempts!r}; it must be 1 or more"
        if self.permit not in get_args(PermitUse):
            return f"has permit {self.permit!r}; it must be 'start' or 'call'"
        return None

    def retry_delay(self, code: str, attempt: int, random: random.Random) -> float:
        """Return how long to wait before the next attempt."""
        return self.back_off_by_code.get(code, self.back_off).delay(max(attempt, 1), random)
