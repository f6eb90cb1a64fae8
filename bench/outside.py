"""The outside world of a measurement: one sandbox, whose log of calls is the witness.

Its times are those of the machine's clocks, monotonic and wall, which are the same in all processes.
"""

import asyncio
import http.client
import json
import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from bench import children, servers

KEY = "bench-key"
START_SECONDS = 30.0
#: Nothing that is asked for here ever ends: what is measured is the asking.
FOR_EVER = "10000000"
CREATORS = 20
CREATE = {"model": "google/nano-banana", "input": {"prompt": "a fox in the snow"}}


@dataclass
class Sandbox:
    """A running sandbox with tasks of KIE that stay running."""

    port: int
    #: Ids of the tasks it has accepted from us; parts share them, each with a database of its own.
    accepted: list[str] = field(default_factory=list)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def settings(self) -> dict[str, str]:
        """Return what a Longtake process must be told to find it."""
        return {
            "LONGTAKE_ALLOW_ADDRESSES": "loopback",
            "LONGTAKE_KIE_BASE_URL": f"{self.url}/kie",
            "LONGTAKE_KIE_API_KEY": KEY,
            "LONGTAKE_GEMINI_BASE_URL": f"{self.url}/gemini/v1beta",
            "LONGTAKE_GEMINI_API_KEY": KEY,
        }

    def tasks(self, number: int) -> list[str]:
        """Return the ids of so many running tasks."""
        missing = number - len(self.accepted)
        if missing > 0:
            self.accepted += asyncio.run(create_tasks(self.url, missing))
        return self.accepted[:number]

    def queries(self) -> list[dict[str, Any]]:
        """Return the queries since they were last forgotten, oldest first."""
        calls: list[dict[str, Any]] = self.ask("GET", "/_calls?route=query")["calls"]
        return calls

    def answered(self, route: str) -> int:
        """Count the calls of a route that were answered well; cheap however many there were."""
        counts = self.ask("GET", "/_calls/summary")["counts"]
        return sum(one["count"] for one in counts if one["route"] == route and one["status"] == 200)

    def forget(self) -> None:
        self.ask("DELETE", "/_calls")

    def set(self, **settings: Any) -> None:
        """Change settings while it runs; tasks that it has accepted keep theirs."""
        self.ask("POST", "/_settings", json.dumps(settings))

    def ask(self, method: str, path: str, body: str | None = None) -> Any:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=START_SECONDS)
        try:
            connection.request(method, path, body)
            return json.loads(connection.getresponse().read())
        finally:
            connection.close()


@contextmanager
def running_sandbox() -> Iterator[Sandbox]:
    sandbox = Sandbox(servers.free_port())
    durations = [f"--seconds={kind}={FOR_EVER}" for kind in ("image", "video")]
    options = ["--port", str(sandbox.port), "--key", KEY, *durations, "--spread", "0", "--instant", "--quiet"]
    command = [sys.executable, "-m", "longtake", "sandbox", *options]
    with children.program("longtake sandbox", command, os.environ) as process:
        wait_until_answering(lambda: sandbox.ask("GET", "/_calls/summary"), process)
        yield sandbox


def wait_until_answering(ask: Any, process: children.Child) -> None:
    """Ask until there is an answer; a process that ended, or takes too long, is a failure."""
    deadline = time.monotonic() + START_SECONDS
    while True:
        try:
            ask()
        except OSError:
            process.check()
            if time.monotonic() > deadline:
                raise children.ChildFailed(f"{process.target} does not answer") from None
            time.sleep(0.05)
        else:
            return


async def create_tasks(url: str, number: int) -> list[str]:
    """Have the sandbox accept so many tasks, as KIE would."""
    import aiohttp

    numbers = iter(range(number))
    accepted: list[str] = []

    async def create() -> None:
        for _ in numbers:
            async with session.post(f"{url}/kie/api/v1/jobs/createTask", json=CREATE) as response:
                accepted.append((await response.json())["data"]["taskId"])

    async with aiohttp.ClientSession(headers={"Authorization": f"Bearer {KEY}"}) as session:
        await asyncio.gather(*(create() for _ in range(CREATORS)))
    return accepted
