"""Requests sent by the clock, whether or not earlier ones were answered; runs in a child of its own.

A request's time runs from the moment at which it was to be sent. So a server that stands still for a second is charged
with every request of that second, and not only with the one that happened to be under way; a client that falls behind
can only make the figures worse.
"""

import asyncio
import time
import uuid
from typing import Any

#: Far more than a request may take: what is not answered by then is lost.
PATIENCE_SECONDS = 10.0


def send(url: str, token: str, body: dict[str, Any], rate: float, seconds: float, users: list[str]) -> dict[str, float]:
    import uvloop

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(send_all(url, token, body, rate, seconds, users))


async def send_all(
    url: str, token: str, body: dict[str, Any], rate: float, seconds: float, users: list[str]
) -> dict[str, float]:
    import aiohttp

    number = int(rate * seconds)
    took: list[float] = []
    accepted = 0

    async def one(at: float, user: str) -> None:
        nonlocal accepted
        headers = {"Longtake-User": user, "Idempotency-Key": uuid.uuid4().hex}
        try:
            async with session.post(url, json=body, headers=headers) as response:
                await response.read()
                accepted += response.status == 202
        except (aiohttp.ClientError, TimeoutError):
            pass
        took.append(time.monotonic() - at)

    connector = aiohttp.TCPConnector(limit=0)
    patience = aiohttp.ClientTimeout(total=PATIENCE_SECONDS)
    common = {"Authorization": f"Bearer {token}"}
    async with aiohttp.ClientSession(connector=connector, timeout=patience, headers=common) as session:
        start = time.monotonic() + 0.1
        requests = []
        for index in range(number):
            at = start + index / rate
            if (wait := at - time.monotonic()) > 0:
                await asyncio.sleep(wait)
            requests.append(asyncio.create_task(one(at, users[index % len(users)])))
        await asyncio.gather(*requests)
    took.sort()
    return {
        "p50": took[number // 2] * 1000,
        "p99": took[int(number * 0.99)] * 1000,
        "most": took[-1] * 1000,
        "refused": number - accepted,
    }
