"""The live feed: one loop per server process, and one read of the log for all its subscribers.

A subscriber gets every event after the place where the feed was when it joined. What it missed before is read for it
alone, up to that place. So no event is lost in between, and none is sent twice.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager

import structlog

from longtake.clock import Clock
from longtake.db import Database, Transaction
from longtake.engine.events import TOPIC, Event
from longtake.errors import LongtakeError
from longtake.services.alerts import Severity, raise_alert, resolve_alert
from longtake.services.live.event_log import Cursor, LogPage, current_place, read_page
from longtake.services.live.streams import EncodedEvent, EndReason, Subscriber, encode_event

PAGE_LIMIT = 1_000
#: The log is read this often even without a signal, because signals get lost.
POLL_SECONDS = 1.0
#: Reads are at least this far apart: under load, one finds the events of many transactions.
SPACING_SECONDS = 0.005
STALLED_SECONDS = (0.01, 0.25)
#: What the replay buffer keeps.
MOST_EVENTS = 10_000
MOST_BYTES = 8_000_000
STALLED_CODE = "EVENTS_HELD_UP"
#: How long events may be stalled before operators get an alert.
PATIENCE_SECONDS = 5.0
# Real time, and all databases: transaction numbers belong to the server, not to one database.
OLDEST_WRITER = """
SELECT coalesce(nullif(application_name, ''), 'unnamed'), pid,
    extract(epoch FROM clock_timestamp() - xact_start)::float8
FROM pg_stat_activity WHERE backend_xid IS NOT NULL AND pid <> pg_backend_pid()
ORDER BY age(backend_xid) DESC LIMIT 1
"""

log = structlog.get_logger(__name__)


class Feed:
    """Passes events to the subscribers and listeners of this process. Without any of them it does not read."""

    def __init__(self, database: Database, clock: Clock, buffer: ReplayBuffer | None = None) -> None:
        self._database = database
        self._clock = clock
        self._buffer = buffer or ReplayBuffer()
        self._alert = StalledAlert(database, clock)
        self._subscribers: dict[str, set[Subscriber]] = {}
        self._listeners: list[Callable[[Event], None]] = []
        self._presence_callbacks: list[Callable[[str, bool], None]] = []
        #: All subscribers have the events up to here; None while there are none.
        self._place: Cursor | None = None
        self._in_use = asyncio.Event()
        self._wake = asyncio.Event()
        self._database_down = False
        self._pause = STALLED_SECONDS[0]
        self._stopping = False

    @property
    def place(self) -> Cursor:
        """Return the cursor up to which every subscriber has its events."""
        return self._place or (0, 0)

    async def join(self, user_id: str, types: Sequence[str], start: Cursor | None = None) -> Subscriber:
        """Return a new subscriber, with the events it missed if all of them are still in memory."""
        place = await self._ensure_started()
        subscriber = Subscriber(user_id, place, types, start)
        if subscriber.start <= place:
            subscriber.missed = self._buffer.events_of(user_id, subscriber.start)
        first = user_id not in self._subscribers
        self._subscribers.setdefault(user_id, set()).add(subscriber)
        self._in_use.set()
        if self._stopping:
            subscriber.end(EndReason.SERVER_STOPPING)
        if first:
            self._notify_presence(user_id, present=True)
        return subscriber

    def leave(self, subscriber: Subscriber) -> None:
        """Remove a subscriber. Removing it again does nothing."""
        subscribers = self._subscribers.get(subscriber.user_id, set())
        subscribers.discard(subscriber)
        if not subscribers and self._subscribers.pop(subscriber.user_id, None) is not None:
            self._notify_presence(subscriber.user_id, present=False)
        self._pause_if_unused()

    def listen(self, callback: Callable[[Event], None]) -> Callable[[], None]:
        """Call `callback` with every user's events from about now on; return a function that ends it."""
        self._listeners = [*self._listeners, callback]
        self._in_use.set()

        def stop() -> None:
            self._listeners = [one for one in self._listeners if one is not callback]
            self._pause_if_unused()

        return stop

    def on_presence(self, callback: Callable[[str, bool], None]) -> None:
        """Call `callback` with a user's id, and True when their first subscriber joins, False when the last leaves."""
        self._presence_callbacks.append(callback)

    def stop(self) -> None:
        """End all subscribers, also those that still join: the server is stopping."""
        self._stopping = True
        self._end_all(EndReason.SERVER_STOPPING)

    def running(self) -> AbstractAsyncContextManager[None]:
        return self._database.signals.heeded(TOPIC, self._wake, self._loop())

    async def _loop(self) -> None:
        while True:
            await self._in_use.wait()
            self._wake.clear()
            try:
                pause = await self.round()
                self._log_database_state(None)
            except LongtakeError as error:
                self._log_database_state(error)
                pause = POLL_SECONDS
            except Exception:
                log.exception("reading events failed", action="feed")
                pause = POLL_SECONDS
            await asyncio.sleep(min(pause, SPACING_SECONDS))
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(pause):
                    await self._wake.wait()

    async def round(self) -> float:
        """Read the log once and pass on its events; return how long to wait before the next read."""
        after = await self._ensure_started()
        found = await self._database.read(read_page, after, PAGE_LIMIT)
        # Meanwhile the feed may have paused and started again at another place.
        if self._place == after:
            self._publish(found)
        await self._alert.update(found)
        self._pause_if_unused()
        if found.more:
            return 0.0
        pause = min(self._pause, STALLED_SECONDS[1]) if found.stalled else POLL_SECONDS
        self._pause = pause * 2 if found.stalled else STALLED_SECONDS[0]
        return pause

    async def _ensure_started(self) -> Cursor:
        """Return the feed's place; the first call starts the feed at the end of the log."""
        if self._place is None:
            place = await self._database.read(current_place)
            if self._place is None:
                self._place = place
                self._buffer.restart(place)
        return self._place

    def _publish(self, found: LogPage) -> None:
        """Pass on the events of a page. Nothing is awaited here: place and queues must change together."""
        if found.broken:
            log.warning("the event log has a gap, or ends before what was read", action="feed")
            self._buffer.restart(found.place)
            self._end_all(EndReason.EVENTS_FORGOTTEN)
        for event in found.events:
            if event.user_id is None:
                continue
            encoded = encode_event(event)
            self._buffer.add(encoded)
            for subscriber in self._subscribers.get(event.user_id, ()):
                subscriber.put(encoded)
            for listener in self._listeners:
                try:
                    listener(event)
                except Exception:
                    log.exception("a listener failed", action="feed", type=event.type)
        self._place = found.place

    def _end_all(self, reason: EndReason) -> None:
        for subscribers in self._subscribers.values():
            for subscriber in subscribers:
                subscriber.end(reason)

    def _notify_presence(self, user_id: str, *, present: bool) -> None:
        for callback in self._presence_callbacks:
            callback(user_id, present)

    def _pause_if_unused(self) -> None:
        """Stop reading without subscribers and listeners, unless only a read can resolve an alert of ours."""
        if self._subscribers or self._listeners:
            return
        if self._alert.raised:
            self._in_use.set()
            return
        self._place = None
        self._in_use.clear()
        self._alert.reset()

    def _log_database_state(self, error: LongtakeError | None) -> None:
        """Log once that the database is down, and once that it is back."""
        if error is not None and not self._database_down:
            log.warning("the event feed is waiting for the database", action="wait", code=error.code)
        elif error is None and self._database_down:
            log.info("the event feed continues", action="feed")
        self._database_down = error is not None


class ReplayBuffer:
    """Recent events, kept for subscribers that were away briefly.

    Every event after the floor is here. The floor rises when there would be too many.
    """

    def __init__(self, most_events: int = MOST_EVENTS, most_bytes: int = MOST_BYTES) -> None:
        self._most_events = most_events
        self._most_bytes = most_bytes
        self._events: deque[EncodedEvent] = deque()
        self._bytes = 0
        self.floor: Cursor = (0, 0)

    def restart(self, place: Cursor) -> None:
        """Drop everything; events after `place` will be kept."""
        self._events.clear()
        self._bytes = 0
        self.floor = place

    def add(self, event: EncodedEvent) -> None:
        """Keep one more event, and drop the oldest when there are too many."""
        self._events.append(event)
        self._bytes += len(event.frame)
        while len(self._events) > self._most_events or self._bytes > self._most_bytes:
            oldest = self._events.popleft()
            self._bytes -= len(oldest.frame)
            self.floor = oldest.cursor

    def events_of(self, user_id: str, after: Cursor) -> list[EncodedEvent] | None:
        """Return the user's events after a cursor; None when not all of them are here."""
        if after < self.floor:
            return None
        found: list[EncodedEvent] = []
        for event in reversed(self._events):
            if event.cursor <= after:
                break
            if event.user_id == user_id:
                found.append(event)
        return found[::-1]


class StalledAlert:
    """Raises the alert once while events wait too long behind an open transaction; resolves it, whoever raised it."""

    def __init__(self, database: Database, clock: Clock) -> None:
        self._database = database
        self._clock = clock
        self._since: float | None = None
        #: None when another process may have left the alert open.
        self._raised: bool | None = None

    @property
    def raised(self) -> bool:
        """Whether this process has raised the alert, and must keep reading until it can resolve it."""
        return self._raised is True

    def reset(self) -> None:
        """Forget the state, because reading pauses: what happens until the next read is unknown."""
        self._since = self._raised = None

    async def update(self, page: LogPage) -> None:
        """Raise or resolve the alert by what a read of the log found."""
        now = self._clock.monotonic()
        if page.stalled and self._since is None:
            self._since = now
        waited = 0.0 if self._since is None else now - self._since
        # The alert is itself an event, and stalled like the others: it is read when its cause is over.
        if not self._raised and any(_is_ours(event) for event in page.events):
            self._raised = None
        try:
            if not page.stalled:
                self._since = None
                if self._raised is not False:
                    await self._database.run(resolve_alert, STALLED_CODE)
                    self._raised = False
            elif waited > PATIENCE_SECONDS and not self._raised:
                await self._database.run(_raise, waited)
                self._raised = True
        except LongtakeError as error:
            log.warning("alert not written", action="alert", code=error.code)


def _is_ours(event: Event) -> bool:
    return event.type == "alert.raised" and (event.data or {}).get("code") == STALLED_CODE


def _raise(tx: Transaction, waited: float) -> None:
    found = tx.sql(OLDEST_WRITER)
    by = "by a transaction that this role may not see, or by a prepared one"
    if found:
        name, pid, seconds = found[0]
        age = "" if seconds is None else f", open for {seconds:.0f} s"
        by = f"by a transaction of {name} (process {pid}{age})"
    raise_alert(tx, Severity.WARNING, STALLED_CODE, f"Users' events have been held up for {waited:.0f} s {by}.")
