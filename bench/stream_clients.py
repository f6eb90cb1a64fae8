"""Many readers of streams in a process of their own, which does as little as it can with what they get.

An event's delay is its arrival here minus its `at`: the time of the database when the transaction that wrote it began.
So it holds that transaction and its commit too, and is never too small. All clocks are the machine's one wall clock.
"""

import asyncio
import re
import time
from collections import Counter
from datetime import datetime
from pathlib import Path
from typing import Any, cast

EVENT = re.compile(rb'"type":"([a-z._]+)","at":"([^"]+)"')
ACCEPTED = b"HTTP/1.1 200 "
READY = b"event: ready\n"
#: Connections that are opened at the same time.
AT_ONCE = 50


class Arrivals:
    """What all readers of this process got."""

    def __init__(self) -> None:
        self.ended = 0
        self.delays: list[float] = []
        self.types: Counter[str] = Counter()
        self.first = self.last = 0.0

    def note(self, kind: bytes, at: bytes, now: float) -> None:
        self.first = self.first or now
        self.last = now
        self.types[kind.decode()] += 1
        self.delays.append(now - datetime.fromisoformat(at.decode()).timestamp())


class Client(asyncio.Protocol):
    """One stream, read by searching what comes; a piece that ends inside an event waits for its rest."""

    def __init__(self, request: bytes, arrivals: Arrivals, ready: asyncio.Future[None]) -> None:
        self._request = request
        self._arrivals = arrivals
        self._ready = ready
        self._rest = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # uvloop's transports are none of asyncio's, though they do the same.
        cast("asyncio.WriteTransport", transport).write(self._request)

    def data_received(self, data: bytes) -> None:
        now = time.time()
        seen, end = self._rest + data, 0
        if not self._ready.done():
            self._begin(seen)
        for match in EVENT.finditer(seen):
            self._arrivals.note(match[1], match[2], now)
            end = match.end()
        self._rest = seen[max(end, seen.rfind(b"\n\n")) :] if self._ready.done() else seen

    def _begin(self, seen: bytes) -> None:
        if not seen.startswith(ACCEPTED[: len(seen)]):
            self._ready.set_exception(ConnectionError(f"A stream was refused: {seen[:200]!r}"))
        elif READY in seen:
            self._ready.set_result(None)

    def connection_lost(self, _error: Exception | None) -> None:
        self._arrivals.ended += 1
        if not self._ready.done():
            self._ready.set_exception(ConnectionError("A stream was ended before it began."))


def follow(
    port: int, token: str, users: list[str], ready_file: str, expected: int, seconds: float, kind: str = ""
) -> dict[str, Any]:
    """Open a stream for each name in the list; end when so many events (of one type, if any) came, or it took too long.

    The file is made when all streams are open.
    """
    import uvloop

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(follow_all(port, token, users, Path(ready_file), expected, seconds, kind))


async def follow_all(
    port: int, token: str, users: list[str], ready_file: Path, expected: int, seconds: float, kind: str
) -> dict[str, Any]:
    arrivals, gate = Arrivals(), asyncio.Semaphore(AT_ONCE)
    loop = asyncio.get_running_loop()

    async def open_one(user: str) -> asyncio.BaseTransport:
        request = (
            f"GET /v1/events HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nAuthorization: Bearer {token}\r\n"
            f"Longtake-User: {user}\r\n\r\n"
        ).encode()
        ready: asyncio.Future[None] = loop.create_future()
        async with gate:
            transport, _client = await loop.create_connection(
                lambda: Client(request, arrivals, ready), "127.0.0.1", port
            )
            await asyncio.wait_for(ready, 20.0)
        return transport

    transports = await asyncio.gather(*(open_one(user) for user in users))
    ready_file.touch()  # noqa: ASYNC240 - nothing is measured yet
    give_up_at = time.monotonic() + seconds
    # Counting at every event would cost the clients time.
    while time.monotonic() < give_up_at and count(arrivals, kind) < expected:  # noqa: ASYNC110
        await asyncio.sleep(0.05)
    ended = arrivals.ended
    for transport in transports:
        transport.close()
    return {**figures(arrivals), "came": count(arrivals, kind), "ended": ended}


def count(arrivals: Arrivals, kind: str) -> int:
    return arrivals.types[kind] if kind else len(arrivals.delays)


def figures(arrivals: Arrivals) -> dict[str, Any]:
    delays = sorted(arrivals.delays)
    took = max(arrivals.last - arrivals.first, 0.001)
    if not delays:
        return {"p50": None, "p95": None, "most": None, "rate": 0.0, "types": {}}
    return {
        "p50": delays[len(delays) // 2] * 1000,
        "p95": delays[int(len(delays) * 0.95)] * 1000,
        "most": delays[-1] * 1000,
        "rate": len(delays) / took,
        "types": arrivals.types,
    }
