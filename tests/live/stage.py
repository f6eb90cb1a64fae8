"""What tests of the live feed have in common: telling events, and reading frames as a browser does."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http.client import HTTPConnection, HTTPResponse
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from longtake.clock import SystemClock
from longtake.engine.events import append_events, is_held_up
from longtake.services.live.feed import Feed
from longtake.services.live.streams import Stream, StreamLimits, Streams
from tests.api.stage import token
from tests.wait import PATIENCE_SECONDS, until

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from longtake import Database, Transaction
    from longtake.clock import Clock
    from longtake.services.live.event_log import Cursor
    from tests.service.processes import Server


def tell(tx: Transaction, *names: str, user: str | None = "ann") -> None:
    """Write an event for each name, as what happened to this name."""
    append_events(tx, [("task.progress", name, user, {"name": name}) for name in names])


async def told(database: Database, *names: str, user: str | None = "ann", settled: bool = True) -> None:
    """Write events; wait until they may be read, which a NOTIFY under way delays for a moment."""

    def write(tx: Transaction) -> None:
        tell(tx, *names, user=user)

    await database.run(write)
    if settled:
        await until(lambda: database.read(is_held_up), "the events may be read", lambda held_up: not held_up)


@dataclass(frozen=True)
class Frame:
    """One server-sent event."""

    event: str
    id: str | None
    data: Any

    @property
    def subject(self) -> str:
        return str(self.data["subject"])


def parse(text: bytes) -> list[Frame]:
    """Read frames as a browser does; what has no event is none."""
    found = []
    for block in text.decode().split("\n\n"):
        fields = dict(line.split(": ", 1) for line in block.splitlines())
        if "event" in fields:
            found.append(Frame(fields["event"], fields.get("id"), json.loads(fields["data"])))
    return found


def subjects(frames: Iterable[Frame]) -> list[str]:
    """Return what the events are about, without `ready` and heartbeats."""
    return [frame.subject for frame in frames if "subject" in frame.data]


class Follower:
    """A stream that is read in this process, as fast as it comes."""

    def __init__(self, stream: Stream) -> None:
        self.stream = stream
        self.frames: list[Frame] = []
        self.done = asyncio.create_task(self._read())

    @property
    def subjects(self) -> list[str]:
        return subjects(self.frames)

    @property
    def cursor(self) -> str:
        """Return the id a browser would send next."""
        return [frame.id for frame in self.frames if frame.id][-1]

    async def until(self, condition: Callable[[Follower], bool]) -> None:
        """Wait for a condition."""
        await until(lambda: condition(self))

    async def until_subjects(self, *expected: str) -> None:
        """Wait for these events, and check that they are all there are."""
        try:
            await self.until(lambda one: len(one.subjects) >= len(expected))
        finally:
            assert self.subjects == list(expected)

    async def close(self) -> None:
        self.done.cancel()
        await asyncio.wait([self.done])
        self.stream.close()

    async def _read(self) -> None:
        async for piece in self.stream.chunks():
            self.frames += parse(piece)


class Desk:
    """A feed with its streams, on a database."""

    def __init__(self, database: Database, clock: Clock | None = None, limits: StreamLimits | None = None) -> None:
        self.database = database
        self.clock = clock or SystemClock()
        self.feed = Feed(database, self.clock)
        self.streams = Streams(database, self.feed, self.clock, limits)
        self.valid = True

    async def open(self, user: str = "ann", start: Cursor | None = None, types: Iterable[str] = ()) -> Stream:
        return await self.streams.open(user, start, tuple(types), self._still_valid)

    async def follow(self, user: str = "ann", start: Cursor | None = None, types: Iterable[str] = ()) -> Follower:
        return Follower(await self.open(user, start, types))

    async def _still_valid(self) -> bool:
        return self.valid


class Browser:
    """A stream over HTTP, read frame by frame."""

    def __init__(self, connection: HTTPConnection, response: HTTPResponse) -> None:
        self.connection = connection
        self.response = response

    def frame(self) -> Frame | None:
        """Return the next frame; None at the stream's end."""
        block = b""
        while line := self.response.readline():
            block += line
            if line == b"\n":
                if found := parse(block.removesuffix(b"\n\n")):
                    return found[0]
                block = b""
        return None

    def until(self, event: str) -> Frame:
        """Return the next frame of this event; all before it are passed over."""
        # Reading has its own patience, and a heartbeat of a stream that hangs would use up pytest's.
        while (frame := self.frame()) is not None:
            if frame.event == event:
                return frame
        raise AssertionError(f"no {event} came before the stream's end")


@contextmanager
def browsing(
    server: Server, path: str = "/v1/events", *, user: str = "ann", headers: Mapping[str, str] | None = None
) -> Iterator[Browser]:
    """Open a stream at a real server."""
    address = urlsplit(server.url)
    connection = HTTPConnection(address.hostname or "", address.port, timeout=PATIENCE_SECONDS)
    try:
        connection.request("GET", path, headers={"Authorization": f"Bearer {token(user)}"} | dict(headers or {}))
        yield Browser(connection, connection.getresponse())
    finally:
        connection.close()
