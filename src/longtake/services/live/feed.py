"""The live feed: one loop for each server process, one look at the log for all readers.

A reader is told every event after the place where the feed was when it joined; what it has missed before is read for
it alone, up to that very place. So nothing is lost in between, and nothing is told twice.
"""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING

import structlog

from longtake.engine.events import TOPIC
from longtake.errors import LongtakeError
from longtake.services.live.cursors import Cursor, current_place
from longtake.services.live.event_log import Round, read_round
from longtake.services.live.replay_buffer import Recent
from longtake.services.live.sse import Reason, tell
from longtake.services.live.stalled_alert import HeldUp
from longtake.services.live.subscriber import Reader, Wanted

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractAsyncContextManager

    from longtake.clock import Clock
    from longtake.db import Database
    from longtake.engine.events import Event

log = structlog.get_logger(__name__)

ROUND_LIMIT = 1_000
#: A signal may be lost; then the log is looked at all the same.
POLL_SECONDS = 1.0
#: Looks are at least this far apart: under load one finds the events of many transactions.
SPACING_SECONDS = 0.005
HELD_UP_SECONDS = (0.01, 0.25)


class Feed:
    """Tells readers and listeners of this process what happens. Without any of them it rests."""

    def __init__(self, database: Database, clock: Clock, recent: Recent | None = None) -> None:
        self._database = database
        self._clock = clock
        self._recent = recent or Recent()
        self._held_up = HeldUp(database, clock)
        self._readers: dict[str, set[Reader]] = {}
        self._listeners: list[Callable[[Event], None]] = []
        self._audience: list[Callable[[str, bool], None]] = []
        #: Up to here all readers have been told; None while there is nobody to tell.
        self._place: Cursor | None = None
        self._somebody = asyncio.Event()
        self._wake = asyncio.Event()
        self._away = False
        self._pause = HELD_UP_SECONDS[0]
        self._stopping = False

    @property
    def place(self) -> Cursor:
        """Return up to where every reader has been told."""
        return self._place or (0, 0)

    @property
    def readers(self) -> int:
        """Return how many readers there are."""
        return sum(len(readers) for readers in self._readers.values())

    async def join(self, user_id: str, wanted: Wanted, start: Cursor | None = None) -> Reader:
        """Return a reader who is told from now on, with what it missed if all of that is still in memory."""
        place = await self._begun()
        reader = Reader(user_id, place, wanted, start)
        if reader.start <= place:
            reader.missed = self._recent.of(user_id, reader.start)
        first = user_id not in self._readers
        self._readers.setdefault(user_id, set()).add(reader)
        self._somebody.set()
        if self._stopping:
            reader.end(Reason.SERVER_STOPPING)
        if first:
            self._tell_audience(user_id, present=True)
        return reader

    def leave(self, reader: Reader) -> None:
        """Tell a reader no more; leaving twice is as good as once."""
        readers = self._readers.get(reader.user_id, set())
        readers.discard(reader)
        if not readers and self._readers.pop(reader.user_id, None) is not None:
            self._tell_audience(reader.user_id, present=False)
        self._rest_without_anybody()

    def listen(self, callback: Callable[[Event], None]) -> Callable[[], None]:
        """Call back with every user's events from about now on; return the way to stop that."""
        self._listeners = [*self._listeners, callback]
        self._somebody.set()

        def stop() -> None:
            self._listeners = [one for one in self._listeners if one is not callback]
            self._rest_without_anybody()

        return stop

    def on_audience(self, callback: Callable[[str, bool], None]) -> None:
        """Call back with a user's id and True when their first reader joins, with False when the last one leaves."""
        self._audience.append(callback)

    def farewell(self) -> None:
        """End all readers, also those who still come: the server stops."""
        self._stopping = True
        self._end_all(Reason.SERVER_STOPPING)

    def running(self) -> AbstractAsyncContextManager[None]:
        """Follow the log while the server runs."""
        return self._database.signals.heeded(TOPIC, self._wake, self._rounds())

    async def _rounds(self) -> None:
        while True:
            await self._somebody.wait()
            self._wake.clear()
            try:
                pause = await self.round()
                self._note_away(None)
            except LongtakeError as error:
                self._note_away(error)
                pause = POLL_SECONDS
            except Exception:
                log.exception("a look at the events failed", action="feed")
                pause = POLL_SECONDS
            await asyncio.sleep(min(pause, SPACING_SECONDS))
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(pause):
                    await self._wake.wait()

    async def round(self) -> float:
        """Look at the log once and tell everybody; return how long to wait before the next look."""
        after = await self._begun()
        found = await self._database.read(read_round, after, ROUND_LIMIT)
        # Meanwhile everybody may have left, and others have begun anew.
        if self._place == after:
            self._tell(found)
        await self._held_up.note(found)
        self._rest_without_anybody()
        if found.more:
            return 0.0
        pause = min(self._pause, HELD_UP_SECONDS[1]) if found.held_up else POLL_SECONDS
        self._pause = pause * 2 if found.held_up else HELD_UP_SECONDS[0]
        return pause

    async def _begun(self) -> Cursor:
        """Return the feed's place; the first who asks makes it begin, at the end of the log."""
        if self._place is None:
            place = await self._database.read(current_place)
            if self._place is None:
                self._place = place
                self._recent.begin(place)
        return self._place

    def _tell(self, found: Round) -> None:
        """Hand a round's events over. Nothing is awaited here: place and queues belong together."""
        if found.broken:
            log.warning("the log of events has a gap after what was read, or ends before it", action="feed")
            self._recent.begin(found.place)
            self._end_all(Reason.EVENTS_FORGOTTEN)
        for event in found.events:
            if event.user_id is None:
                continue
            told = tell(event)
            self._recent.add(told)
            for reader in self._readers.get(event.user_id, ()):
                reader.put(told)
            for listener in self._listeners:
                try:
                    listener(event)
                except Exception:
                    log.exception("a listener failed", action="feed", type=event.type)
        self._place = found.place

    def _end_all(self, reason: Reason) -> None:
        for readers in self._readers.values():
            for reader in readers:
                reader.end(reason)

    def _tell_audience(self, user_id: str, *, present: bool) -> None:
        for callback in self._audience:
            callback(user_id, present)

    def _rest_without_anybody(self) -> None:
        """Look no more when nobody reads, unless an alert of ours stands that only a look can resolve."""
        if self._readers or self._listeners:
            return
        if self._held_up.raised:
            self._somebody.set()
            return
        self._place = None
        self._somebody.clear()
        self._held_up.rest()

    def _note_away(self, error: LongtakeError | None) -> None:
        """Say once that the database is away, and once that it is back."""
        if error is not None and not self._away:
            log.warning("the feed of events is held up", action="wait", code=error.code)
        elif error is None and self._away:
            log.info("the feed of events goes on", action="feed")
        self._away = error is not None
