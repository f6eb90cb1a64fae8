"""What a child is told, what it tells, and where it stands still."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import orjson

from longtake.engine.executor import Executor

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from longtake import Lane
    from longtake.engine.queue import Claim


@dataclass(frozen=True)
class Plan:
    """How a child is to work, and what is to go wrong in it."""

    url: str
    folder: Path
    kinds: tuple[str, ...] = ("task",)
    lanes: tuple[Lane, ...] = ()
    lease_seconds: float = 1.5
    heartbeat_seconds: float = 0.4
    poll_seconds: float = 0.1
    concurrency: int = 50
    stop_grace_seconds: float = 5.0
    time_limit: float = 30.0
    #: Constants of Longtake that are too long for a test: module, name, value.
    constants: tuple[tuple[str, str, float], ...] = ()
    #: Time limits of PostgreSQL connections that are too long for a test.
    session: tuple[tuple[str, float], ...] = ()
    #: This process's wall clock is wrong by so much.
    clock_offset: float = 0.0
    #: Where the child stands still until told to go: inside the transaction of a "claim", "settle" or "rescue", or
    #: with a claim's answer in hand, before it is taken ("take").
    hold: str | None = None


class Evidence:
    """Lines in one file that all processes append to; each line is written whole or not at all."""

    def __init__(self, folder: Path) -> None:
        self._file = os.open(folder / "evidence", os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
        self._process = os.getpid()

    def write(self, what: str, **facts: Any) -> None:
        line = {"what": what, "process": self._process, "at": time.monotonic(), **facts}
        os.write(self._file, orjson.dumps(line) + b"\n")


def held(function: Callable[..., Any], plan: Plan, evidence: Evidence) -> Callable[..., Any]:
    """Let the function do its work, then stand still inside its transaction, the first time it does anything."""

    def hold(*arguments: Any, **options: Any) -> Any:
        result = function(*arguments, **options)
        go = plan.folder / "go"
        if (result or plan.hold == "settle") and not go.exists():
            evidence.write("holding", step=plan.hold)
            while not go.exists():
                time.sleep(0.01)
        return result

    return hold


def hold_claims_taken(plan: Plan, evidence: Evidence) -> None:
    """Stand still with the first claim's answer in hand, and the event loop with it."""
    take = Executor.take

    def hold(hand: Executor, claim: Claim, claimed_at: float) -> None:
        go = plan.folder / "go"
        if claim.jobs and not go.exists():
            evidence.write("holding", step="take")
            while not go.exists():
                time.sleep(0.01)
        take(hand, claim, claimed_at)

    setattr(Executor, "take", hold)  # noqa: B010 - mypy forbids the assignment
