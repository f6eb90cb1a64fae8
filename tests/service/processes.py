"""Longtake as users run it: real processes in a folder of their own, and commands as they type them."""

from __future__ import annotations

import http.client
import json
import os
import signal
import subprocess
import sys
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from longtake.settings import load_settings
from tests.service.threads import ServerThread, in_thread
from tests.wait import PATIENCE_SECONDS, wait_for

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

#: Longer than any test has the queue processed for.
ANSWER_SECONDS = 75.0


@dataclass
class Answer:
    """What the server answered."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


@dataclass
class Server:
    """A running server: in this process, unless it is a `ServerProcess`."""

    url: str
    token: str
    log: Path

    def request(
        self,
        method: str,
        path: str,
        body: bytes | Iterator[bytes] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Answer:
        address = urlsplit(self.url)
        connection = http.client.HTTPConnection(address.hostname or "", address.port, timeout=ANSWER_SECONDS)
        try:
            connection.request(method, path, body, dict(headers or {}))
            response = connection.getresponse()
            names = {name.lower(): value for name, value in response.getheaders()}
            # A stream of events does not end: its first piece is enough here.
            endless = names.get("content-type", "").startswith("text/event-stream")
            return Answer(response.status, names, response.read1() if endless else response.read())
        finally:
            connection.close()

    def operate(self, action: str, **arguments: Any) -> Answer:
        headers = {"Authorization": f"Bearer {self.token}"}
        return self.request("POST", f"/v1/operator/{action}", json.dumps(arguments).encode(), headers)


@dataclass
class ServerProcess(Server):
    """A running `longtake serve`."""

    process: subprocess.Popen[bytes]

    def stop(self, number: signal.Signals = signal.SIGTERM) -> int:
        self.process.send_signal(number)
        return self.process.wait(timeout=PATIENCE_SECONDS)


@dataclass
class Place:
    """A folder in which Longtake runs, with nothing of this process's own settings."""

    folder: Path
    settings: dict[str, str] = field(default_factory=dict)

    @property
    def environment(self) -> dict[str, str]:
        inherited = {name: value for name, value in os.environ.items() if not name.startswith("LONGTAKE_")}
        defaults = {"LONGTAKE_DATA_DIR": str(self.folder / "data"), "LONGTAKE_PORT": "0", "LONGTAKE_LOG_FORMAT": "json"}
        return inherited | defaults | self.settings

    @property
    def data(self) -> Path:
        return self.folder / "data"

    def run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run a command as a process of its own."""
        return subprocess.run(
            [sys.executable, "-m", "longtake", *arguments],
            cwd=self.folder, env=self.environment, capture_output=True, text=True, timeout=60, check=False,
        )  # fmt: skip

    @contextmanager
    def server_here(self, *, with_worker: bool = True) -> Iterator[Server]:
        """Run a server in a thread of this process until the block ends: all that `serve` does but signals."""
        file = self.data / "server.json"
        file.unlink(missing_ok=True)
        log = self.folder / "server.log"
        settings = load_settings(self.environment, self.folder)

        def started(thread: ServerThread) -> bool:
            assert thread.is_alive(), thread.failure
            return file.exists()

        with in_thread(
            settings, log, lambda thread: wait_for(lambda: started(thread), "its start"), with_worker=with_worker
        ):
            content = json.loads(file.read_text())
            yield Server(content["url"], content["token"], log)

    @contextmanager
    def server(self, *arguments: str) -> Iterator[ServerProcess]:
        """Run a server until the block ends; however it ends, the process is gone."""
        (self.data / "server.json").unlink(missing_ok=True)
        log = self.folder / "server.log"
        with log.open("ab") as output:
            process = subprocess.Popen(
                [sys.executable, "-m", "longtake", "serve", *arguments],
                cwd=self.folder, env=self.environment, stdout=output, stderr=output,
            )  # fmt: skip
        try:
            content = wait_for(lambda: self._started(process, log), "the server's start")
            yield ServerProcess(content["url"], content["token"], log, process)
        finally:
            if process.poll() is None:
                process.kill()
            process.wait(timeout=PATIENCE_SECONDS)

    def _started(self, process: subprocess.Popen[bytes], log: Path) -> Any:
        assert process.poll() is None, log.read_text()
        file = self.data / "server.json"
        return json.loads(file.read_text()) if file.exists() else None
