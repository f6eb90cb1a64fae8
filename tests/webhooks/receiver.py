"""The example of a receiver as a process of its own, and what callers do with webhooks at a server."""

from __future__ import annotations

import http.client
import os
import socket
import subprocess
import sys
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.wait import wait_for

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.api.stage import Api

EXAMPLE = Path(__file__).parents[2] / "examples" / "webhook_receiver.py"


@dataclass
class Receiver:
    """The example of a receiver, running."""

    port: int
    output: Path

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/"

    def lines(self) -> list[list[str]]:
        return [line.split() for line in self.output.read_text().splitlines()]

    def post(self, body: bytes, headers: dict[str, str]) -> int:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=10)
        try:
            connection.request("POST", "/", body, headers)
            return connection.getresponse().status
        finally:
            connection.close()


def free_port() -> int:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return int(taken.getsockname()[1])


@contextmanager
def receiving(folder: Path, port: int, secret: str) -> Iterator[Receiver]:
    """Run the example until the block ends."""
    output, errors = folder / "received.txt", folder / "receiver.log"
    with output.open("ab") as lines, errors.open("ab") as log:
        command = [sys.executable, str(EXAMPLE), str(port)]
        process = subprocess.Popen(command, env={**os.environ, "SECRET": secret}, stdout=lines, stderr=log)
    try:
        wait_for(lambda: _answers(port) or process.poll() is not None, "the receiver's start")
        yield Receiver(port, output)
    finally:
        process.kill()
        process.wait(timeout=10)


def _answers(port: int) -> bool:
    with socket.socket() as one:
        return one.connect_ex(("127.0.0.1", port)) == 0


def create(api: Api, port: int, **body: Any) -> dict[str, Any]:
    made = api.ask("POST", "/v1/webhooks", {"url": f"http://127.0.0.1:{port}/"} | body)
    assert made.status == 201, made.body
    found: dict[str, Any] = made.json
    return found


def deliveries(api: Api, webhook_id: str, state: str = "delivered") -> list[dict[str, Any]]:
    found = api.ask("GET", f"/v1/webhooks/{webhook_id}/deliveries?limit=200&state={state}").json
    return list(found["deliveries"])


def wait_for_deliveries(api: Api, webhook_id: str, number: int) -> None:
    wait_for(lambda: len(deliveries(api, webhook_id)) == number, f"{number} deliveries")
