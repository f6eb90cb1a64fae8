"""Tasks somebody watches are asked about sooner, and whoever waits for one hears of its end at once.

One loop for each server process: it hurries the polls of all watched tasks in one statement, and looks for the ends of
all awaited ones in another. The worker's polls need not know who is watching.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import defaultdict
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass

import structlog
from sqlalchemy import select

from longtake.clock import Clock
from longtake.db import Database, Transaction
from longtake.engine.control import hurry
from longtake.engine.engine import Engine
from longtake.errors import LongtakeError
from longtake.generation.endings import TOPIC
from longtake.generation.kinds import POLL
from longtake.generation.tables import UNFINISHED, tasks

log = structlog.get_logger(__name__)

#: How long one sign of interest counts.
INTEREST_SECONDS = 10.0
FAST_SECONDS = {"image": 2.0, "video": 5.0}
#: After so long of watching, looking less often is kinder to everybody.
EARLY_SECONDS = 120.0
LATER_SECONDS = {"image": 10.0, "video": 15.0}
ROUND_SECONDS = 0.5


@dataclass(slots=True)
class _Watched:
    type: str
    since: float
    until: float
    next_at: float


class Watch:
    """Who watches what, in this process."""

    def __init__(self, database: Database, engine: Engine, clock: Clock) -> None:
        self._database = database
        self._engine = engine
        self._clock = clock
        self._watched: dict[str, _Watched] = {}
        self._awaited: dict[str, set[asyncio.Event]] = defaultdict(set)
        self._wake = asyncio.Event()

    def touch(self, task_id: str, type: str) -> None:  # noqa: A002 - the domain's word
        """Note that somebody looks at the task now."""
        now = self._clock.monotonic()
        known = self._watched.get(task_id)
        if known is None:
            fast = now + FAST_SECONDS[type]
            self._watched[task_id] = _Watched(type, now, now + INTEREST_SECONDS, fast)
        else:
            known.until = now + INTEREST_SECONDS

    async def ended(self, task_id: str, type: str, seconds: float) -> bool:  # noqa: A002
        """Wait until the task has ended; False when it has not within so many seconds."""
        event = asyncio.Event()
        self._awaited[task_id].add(event)
        give_up_at = self._clock.monotonic() + seconds
        try:
            while (left := give_up_at - self._clock.monotonic()) > 0:
                self.touch(task_id, type)
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(event.wait(), min(left, INTEREST_SECONDS / 2))
                    return True
            return False
        finally:
            self._awaited[task_id].discard(event)
            if not self._awaited[task_id]:
                del self._awaited[task_id]

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Keep watching while the server runs."""
        loop = asyncio.get_running_loop()

        def heard(topic: str) -> None:
            if topic == TOPIC:
                loop.call_soon_threadsafe(self._wake.set)

        unsubscribe = self._database.signals.subscribe(heard)
        rounds = asyncio.create_task(self._rounds())
        try:
            yield
        finally:
            unsubscribe()
            rounds.cancel()
            await asyncio.wait([rounds])

    async def _rounds(self) -> None:
        while True:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._wake.wait(), ROUND_SECONDS)
            self._wake.clear()
            try:
                await self.round()
            except LongtakeError as error:
                # The database is away: watching goes on when it is back.
                log.warning("watching is held up", action="wait", code=error.code)
            except Exception:
                log.exception("watching failed once", action="watch")

    async def round(self) -> None:
        """Tell who waits, and hurry what is due to be looked at."""
        awaited = list(self._awaited)
        if awaited:
            for task_id in await self._database.read(_ended, awaited):
                for event in self._awaited.get(task_id, ()):
                    event.set()
        due = self._due()
        if due:
            await self._database.run(_hurry, self._engine, due)

    def _due(self) -> list[str]:
        now = self._clock.monotonic()
        due = []
        for task_id, one in list(self._watched.items()):
            if one.until < now:
                del self._watched[task_id]
            elif one.next_at <= now:
                due.append(task_id)
                pace = FAST_SECONDS if now - one.since < EARLY_SECONDS else LATER_SECONDS
                one.next_at = now + pace[one.type]
        return due


def _ended(tx: Transaction, task_ids: Sequence[str]) -> list[str]:
    found = tx.execute(select(tasks.c.id).where(tasks.c.id.in_(task_ids), tasks.c.status.not_in(UNFINISHED)))
    return list(found.scalars())


def _hurry(tx: Transaction, engine: Engine, task_ids: Sequence[str]) -> None:
    hurry(tx, engine, POLL, task_ids, untroubled=True)
