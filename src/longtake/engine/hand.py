"""The jobs a worker has in hand: what runs, since when, and why it was stopped."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from longtake.engine.jobs import Job
    from longtake.engine.kinds import JobKind


class StopReason(Enum):
    """Why a running handler was cancelled."""

    CANCELLED = "cancelled"
    RELEASED = "released"
    LOST = "lost"


@dataclass(slots=True)
class InHand:
    """One claimed job. Its lease token is the job's; a job claimed again is another InHand."""

    job: Job
    kind: JobKind
    claimed_at: float
    started_at: float | None = None
    task: asyncio.Task[None] | None = None
    timer: asyncio.TimerHandle | None = None
    stop_reason: StopReason | None = None
    last_progress: float = field(default=-1.0)

    def stop(self, reason: StopReason) -> None:
        """End the handler; what it would have returned no longer counts."""
        if self.stop_reason is None:
            self.stop_reason = reason
            if self.task is not None:
                self.task.cancel()
