"""Jobs as Python sees them, and what is checked before one is written."""

from __future__ import annotations

import math
import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from datetime import datetime
from enum import IntEnum
from typing import TYPE_CHECKING, Any, TypeVarTuple

import orjson

from longtake.db import Transaction
from longtake.engine.errors import InvalidArguments, InvalidDelay, InvalidKey, InvalidPriority

if TYPE_CHECKING:
    from longtake.engine.engine import Engine

ProgressWriter = Callable[..., Awaitable[bool]]
PermitWaiter = Callable[[], Awaitable[None]]
LaneWaiter = Callable[..., Awaitable[bool]]
Ts = TypeVarTuple("Ts")

ARGUMENTS_LIMIT = 64 * 1024
KEY_LIMIT = 200
DELAY_LIMIT = 10 * 365 * 86400.0
#: A NUL in JSON text, and not the six characters that only look like one after a backslash.
NUL = re.compile(rb"(?<!\\)(?:\\\\)*\\u0000")


class Priority(IntEnum):
    """Lower goes first; jobs of one priority take turns by kind, then the longest due goes first."""

    TOP = 0
    HIGH = 1
    NORMAL = 2
    LOW = 3


@dataclass(frozen=True, slots=True)
class JobRequest:
    """A job to be: what to run, and how it is to be treated. What is left out comes from its kind."""

    kind: str
    args: Any = field(default_factory=dict)
    key: str | None = None
    delay: float = 0.0
    lane: str | None = None
    priority: int | None = None
    max_attempts: int | None = None
    subject: str | None = None
    request_id: str | None = None

    def checked_args(self) -> str:
        """Return the arguments as JSON text; refuse the whole request, by name, when any part of it is wrong."""
        try:
            text = orjson.dumps(self.args)
        except (TypeError, ValueError) as error:
            raise InvalidArguments(f"The arguments of {self.kind!r} are not JSON: {error}.") from error
        if len(text) > ARGUMENTS_LIMIT:
            raise InvalidArguments(
                f"The arguments of {self.kind!r} are {len(text):,} bytes of JSON; at most {ARGUMENTS_LIMIT:,} are kept."
            )
        if b"\\u0000" in text and NUL.search(text):
            raise InvalidArguments(f"The arguments of {self.kind!r} hold a NUL character, which databases refuse.")
        if not isinstance(self.delay, int | float) or not math.isfinite(self.delay) or self.delay < 0:
            raise InvalidDelay(f"The delay of {self.kind!r} is {self.delay!r}; it must be 0 or more seconds.")
        if self.delay > DELAY_LIMIT:
            raise InvalidDelay(f"The delay of {self.kind!r} is {self.delay!r} seconds; ten years are the most.")
        if self.key is not None and not 0 < len(self.key) <= KEY_LIMIT:
            raise InvalidKey(f"The key of {self.kind!r} has {len(self.key)} characters; it must have 1 to {KEY_LIMIT}.")
        if self.key is not None and not _can_be_stored(self.key):
            raise InvalidKey(f"The key of {self.kind!r} is {self.key!r}: a NUL or half a character cannot be stored.")
        if self.priority is not None and self.priority not in tuple(Priority):
            raise InvalidPriority(f"The priority of {self.kind!r} is {self.priority!r}; it must be 0 (top) to 3 (low).")
        return text.decode()


@dataclass(frozen=True, slots=True)
class Enqueued:
    """The job that does what was asked: a new one, or the live one that had the same key already."""

    id: str
    created: bool


@dataclass(slots=True)
class Job:
    """A claimed job. The lease token is what every write about it is checked against."""

    id: str
    kind: str
    key: str | None
    lane: str
    priority: int
    attempt: int
    max_attempts: int
    crashes: int
    snoozes: int
    alone: bool
    lease_token: str
    args: Any
    memo: Any
    subject: str | None
    request_id: str | None
    cancel_requested_at: datetime | None
    created_at: datetime
    due_at: datetime
    #: The engine that claimed it; set with the claim, so a job that was only read has none.
    engine: Engine = field(init=False, repr=False, compare=False)
    progress_writer: ProgressWriter | None = None
    permit_waiter: PermitWaiter | None = None
    lane_waiter: LaneWaiter | None = None

    async def permit(self) -> None:
        """Wait until the lane permits the call that comes next; the job's time limit counts from here.

        Returns at once if the job began with its permit, and after the first time in a run. A job that is too late is
        given back unspent: its handler is cancelled here, so it must not have written anything yet.
        """
        if self.permit_waiter is not None:
            await self.permit_waiter()

    async def permit_of(self, lane: str) -> bool:
        """Wait for a permit of another lane, for a call that belongs to it; return False if there is none soon."""
        return self.lane_waiter is None or await self.lane_waiter(self, lane)

    async def progress(
        self, function: Callable[[Transaction, *Ts], None], *arguments: *Ts, at_once: bool = False
    ) -> bool:
        """Write about the middle of a run (a state, bytes done), fenced by the lease; at most once a second.

        Returns False when it was left out because the last one was less than a second ago; with `at_once`, for what
        happens once and must be seen, it never is. Raises LeaseLost when the job is no longer ours: stop working on
        it then.
        """
        if self.progress_writer is None:
            return False
        if at_once:
            return await self.progress_writer(self, function, *arguments, at_once=True)
        return await self.progress_writer(self, function, *arguments)


def _can_be_stored(text: str) -> bool:
    try:
        return b"\0" not in text.encode()
    except UnicodeEncodeError:
        return False
