"""Polls watched tasks sooner, and wakes requests that wait for the end of a task.

Each server process has one loop that hurries the polls of all watched tasks together, and likewise reads which awaited
tasks have ended; workers need not know who watches. A user with an open stream of events watches all their unfinished
tasks: these are read once when the stream opens, then known from the events themselves.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import defaultdict
from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Any

import structlog
from sqlalchemy import Row, select

from longtake.capabilities.generation.tables import IS_UNFINISHED, POLL, UNFINISHED, tasks
from longtake.capabilities.generation.tasks import ENDED_SIGNAL
from longtake.clock import Clock
from longtake.db import Database, Transaction
from longtake.engine.control import hurry
from longtake.engine.events import Event
from longtake.errors import LongtakeError
from longtake.services.live.feed import Feed

log = structlog.get_logger(__name__)

#: How long a task counts as watched after it was last looked at.
INTEREST_SECONDS = 10.0
ROUND_SECONDS = 0.5
#: Seconds between polls of a watched task, by what it makes; after EARLY_SECONDS of watching, LATER_SECONDS.
FAST_SECONDS = {"image": 2.0, "video": 5.0}
EARLY_SECONDS = 120.0
LATER_SECONDS = {"image": 10.0, "video": 15.0}
#: Watched tasks of one user with an open stream. More follow when half of these have ended.
MOST_OF_A_USER = 100
#: Tasks in one statement, which may have 65,535 parameters and should not hold a lock for long.
PAGE = 1_000
ENDED = frozenset(("task.completed", "task.failed", "task.cancelled"))


@dataclass(slots=True)
class _Watched:
    type: str
    since: float
    until: float
    next_at: float
    #: The user whose open stream keeps it watched.
    user_id: str | None = None


class Watch:
    """The tasks that callers of this process watch or wait for."""

    def __init__(self, database: Database, clock: Clock, feed: Feed) -> None:
        self._database = database
        self._clock = clock
        self._watched: dict[str, _Watched] = {}
        self._awaited: dict[str, set[asyncio.Event]] = defaultdict(set)
        self._wake = asyncio.Event()
        #: Users with an open stream, each with the unfinished tasks watched for it.
        self._present: dict[str, set[str]] = {}
        self._newcomers: set[str] = set()
        #: Users among them with more unfinished tasks than are watched.
        self._crowded: set[str] = set()
        self._ended_lately: set[str] = set()
        self._feed = feed
        self._stop_listening: Callable[[], None] | None = None
        feed.on_presence(self._audience)

    def touch(self, task_id: str, type: str) -> None:  # noqa: A002 - the domain's word
        """Watch the task for as long as a look counts."""
        now = self._clock.monotonic()
        known = self._watched.get(task_id)
        if known is None:
            fast = now + FAST_SECONDS[type]
            self._watched[task_id] = _Watched(type, now, now + INTEREST_SECONDS, fast)
        else:
            known.until = now + INTEREST_SECONDS

    async def ended(self, task_id: str, type: str, seconds: float) -> bool:  # noqa: A002
        """Wait until the task has ended; return False when it has not within so many seconds."""
        event = asyncio.Event()
        self._awaited[task_id].add(event)
        give_up_at = self._clock.monotonic() + seconds
        try:
            while (left := give_up_at - self._clock.monotonic()) > 0:
                self.touch(task_id, type)
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(min(left, INTEREST_SECONDS / 2)):
                        await event.wait()
                    return True
            return False
        finally:
            self._awaited[task_id].discard(event)
            if not self._awaited[task_id]:
                del self._awaited[task_id]

    def running(self) -> AbstractAsyncContextManager[None]:
        return self._database.signals.heeded(ENDED_SIGNAL, self._wake, self._rounds())

    async def _rounds(self) -> None:
        while True:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(ROUND_SECONDS):
                    await self._wake.wait()
            self._wake.clear()
            try:
                await self.round()
            except LongtakeError as error:
                # The database is away: watching resumes when it is back.
                log.warning("watching waits for the database", action="wait", code=error.code)
            except Exception:
                log.exception("a round of watching failed", action="watch")

    async def round(self) -> None:
        """Wake those who wait for ended tasks, and hurry the polls that are due."""
        if self._newcomers:
            await self._meet_newcomers()
        for page in _pages(list(self._awaited)):
            for task_id in await self._database.read(_ended, page):
                for event in self._awaited.get(task_id, ()):
                    event.set()
        for page in _pages(self._due()):
            await self._database.run(_hurry, page)

    def _audience(self, user_id: str, present: bool) -> None:  # noqa: FBT001 - as the feed tells it
        if present:
            self._present[user_id] = set()
            self._newcomers.add(user_id)
            self._wake.set()
        else:
            self._newcomers.discard(user_id)
            self._crowded.discard(user_id)
            for task_id in self._present.pop(user_id, ()):
                self._watched.pop(task_id, None)
        if self._present and self._stop_listening is None:
            self._stop_listening = self._feed.listen(self._heard)
        elif not self._present and self._stop_listening is not None:
            self._stop_listening()
            self._stop_listening = None

    def _heard(self, event: Event) -> None:
        """Follow from a user's events which of their tasks begin and end."""
        if event.user_id not in self._present or event.subject is None:
            return
        if event.type == "task.created":
            self._keep_watched(event.user_id, event.subject, event.data["type"])
        elif event.type in ENDED:
            watched = self._present[event.user_id]
            watched.discard(event.subject)
            self._watched.pop(event.subject, None)
            # More tasks of a user who has too many to watch follow once half of the watched ones have ended.
            if event.user_id in self._crowded and len(watched) <= MOST_OF_A_USER // 2:
                self._crowded.discard(event.user_id)
                self._newcomers.add(event.user_id)
            if self._newcomers:
                self._ended_lately.add(event.subject)

    async def _meet_newcomers(self) -> None:
        """Watch the unfinished tasks of users whose first stream has just opened, or who have room for more."""
        newcomers = list(self._newcomers)
        for row in await self._database.read(_unfinished, newcomers):
            # A user who left meanwhile watches nothing; a task that ended meanwhile may look unfinished here.
            if row.user_id in self._newcomers and row.id not in self._ended_lately:
                self._keep_watched(row.user_id, row.id, row.type)
        self._newcomers.difference_update(newcomers)
        self._ended_lately.clear()

    def _keep_watched(self, user_id: str, task_id: str, kind: str) -> None:
        mine = self._present[user_id]
        if task_id not in mine and len(mine) >= MOST_OF_A_USER:
            self._crowded.add(user_id)
            return
        mine.add(task_id)
        self.touch(task_id, kind)
        self._watched[task_id].user_id = user_id

    def _due(self) -> list[str]:
        now = self._clock.monotonic()
        due = []
        for task_id, one in list(self._watched.items()):
            if one.until < now and one.user_id is None:
                del self._watched[task_id]
            elif one.next_at <= now:
                due.append(task_id)
                one.next_at = now + (FAST_SECONDS if now - one.since < EARLY_SECONDS else LATER_SECONDS)[one.type]
        return due


def _pages(task_ids: Sequence[str]) -> list[Sequence[str]]:
    return [task_ids[start : start + PAGE] for start in range(0, len(task_ids), PAGE)]


def _ended(tx: Transaction, task_ids: Sequence[str]) -> list[str]:
    found = tx.execute(select(tasks.c.id).where(tasks.c.id.in_(task_ids), tasks.c.status.not_in(UNFINISHED)))
    return list(found.scalars())


def _unfinished(tx: Transaction, user_ids: Sequence[str]) -> list[Row[Any]]:
    """Return the newest unfinished tasks of each user; one extra if there are more."""
    found: list[Row[Any]] = []
    for user_id in user_ids:
        mine = select(tasks.c.id, tasks.c.user_id, tasks.c.type).where(tasks.c.user_id == user_id, IS_UNFINISHED)
        found += tx.execute(mine.order_by(tasks.c.id.desc()).limit(MOST_OF_A_USER + 1)).all()
    return found


def _hurry(tx: Transaction, task_ids: Sequence[str]) -> None:
    hurry(tx, POLL, task_ids, untroubled=True)
