"""A receiver of webhooks in a process of its own: answers everything with 200 at once, and notes when it came."""

import asyncio
import re
import time
from pathlib import Path

LENGTH = re.compile(rb"content-length: *([0-9]+)", re.IGNORECASE)
ANSWER = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"


class Receiver(asyncio.Protocol):
    """One connection; requests come one after the other."""

    def __init__(self, came: list[float]) -> None:
        self._came = came
        self._rest = b""
        self._transport: asyncio.WriteTransport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.WriteTransport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self._rest += data
        while (end := self._rest.find(b"\r\n\r\n")) >= 0:
            found = LENGTH.search(self._rest, 0, end)
            whole = end + 4 + (int(found[1]) if found else 0)
            if len(self._rest) < whole or self._transport is None:
                return
            self._rest = self._rest[whole:]
            self._came.append(time.monotonic())
            self._transport.write(ANSWER)


def receive(port: int, ready_file: str, expected: int, seconds: float) -> list[float]:
    """Listen until so many requests came, or it took too long; return when each came."""
    return asyncio.run(receive_all(port, Path(ready_file), expected, seconds))


async def receive_all(port: int, ready_file: Path, expected: int, seconds: float) -> list[float]:
    came: list[float] = []
    server = await asyncio.get_running_loop().create_server(lambda: Receiver(came), "127.0.0.1", port)
    ready_file.touch()  # noqa: ASYNC240 - nothing is measured yet
    give_up_at = time.monotonic() + seconds
    # Counting at every request would cost the receiver time.
    while len(came) < expected and time.monotonic() < give_up_at:  # noqa: ASYNC110
        await asyncio.sleep(0.05)
    server.close()
    return came
