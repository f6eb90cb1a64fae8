"""One job that a worker has in hand, and why it was stopped."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import asyncio

    from longtake.engine.jobs import Job
    from longtake.engine.kinds import JobKind


class StopReason(Enum):
    """Why a running handler was stopped."""

    CANCELLED = "cancelled"
    TIME_LIMIT = "time limit"
    RELEASED = "released"
    LOST = "lost"


@dataclass(slots=True)
class InHand:
    """One claimed job. A job that is claimed again is another InHand."""

    job: Job
    kind: JobKind
    claimed_at: float
    #: Later than this it is not begun but given back: its permit has lapsed, or its lease may be with another.
    start_by: float
    timed: bool = False
    started_at: float | None = None
    task: asyncio.Task[None] | None = None
    stop_reason: StopReason | None = None
    last_progress: float | None = None

    def stop(self, reason: StopReason) -> None:
        """End the handler; what it would have returned no longer counts."""
        if self.stop_reason is None:
            self.stop_reason = reason
            # A task that is cancelled before its first step never runs at all: it looks at the reason itself then.
            if self.task is not None and self.started_at is not None:
                self.task.cancel()
