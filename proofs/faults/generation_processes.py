"""Longtake's processes for a kill test of generation: the server, its workers, and how they are killed."""

from __future__ import annotations

import asyncio
import itertools
import random
import signal
import socket
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from tests.outside import SQLITE
from tests.service.processes import Place
from tests.wait import PATIENCE_SECONDS

if TYPE_CHECKING:
    from tests.sandbox_process import SandboxProcess

LEASE_SECONDS = 3.0
HEARTBEAT_SECONDS = 0.5
SECRET = "a secret of this test alone, long enough to sign"
#: Below the ports that the system gives to whoever asks for any: nobody takes ours while its server is dead.
PORTS = range(15_000, 30_000)
LOG_TAIL = 1_500
#: What a server says when it answers, and a worker when it works.
STARTED = b" started"


class Killable:
    """One `longtake` process: killed outright and started again at once. It never may end by itself."""

    def __init__(self, place: Place, name: str, *arguments: str) -> None:
        self.name = name
        self.kills = 0
        #: What its process said before it ended by itself.
        self.complaints: list[str] = []
        self.log = place.folder / f"{name}.log"
        self._place = place
        self._arguments = arguments
        self._process: subprocess.Popen[bytes] | None = None
        self._log_before = 0

    def start(self) -> None:
        """Start it, without waiting until it works."""
        with self.log.open("ab") as output:
            self._log_before = output.tell()
            self._process = subprocess.Popen(
                [sys.executable, "-m", "longtake", *self._arguments],
                cwd=self._place.folder, env=self._place.environment, stdout=output, stderr=output,
            )  # fmt: skip

    @property
    def pid(self) -> int:
        """Return the id of the process that was started last."""
        assert self._process is not None
        return self._process.pid

    async def until_it_works(self) -> None:
        """Wait until the process that was started last is ready; fail if it ends by itself."""
        while STARTED not in self._said():
            if self._process is None or self._process.poll() is not None:
                raise AssertionError(f"{self.name} ended by itself: {self.log.read_text()[-LOG_TAIL:]}")
            await asyncio.sleep(0.2)

    def _said(self) -> bytes:
        with self.log.open("rb") as log:
            log.seek(self._log_before)
            return log.read()

    def kill(self) -> None:
        """Kill it with -9 and wait until it is gone."""
        if self._process is None:
            return
        if self._process.poll() is None:
            self.kills += 1
            self._process.kill()
        else:
            self._complain(f"ended by itself with {self._process.returncode}")
        self._process.wait(timeout=PATIENCE_SECONDS)

    def stop(self) -> None:
        """Stop it in order, with which all must be well."""
        if self._process is None or self._process.poll() is not None:
            self._complain("was not running any more at the end")
            return
        self._process.send_signal(signal.SIGTERM)
        status = self._process.wait(timeout=PATIENCE_SECONDS)
        if status != 0:
            self._complain(f"ended with {status} when it was asked to stop")

    def _complain(self, what: str) -> None:
        self.complaints.append(f"{self.name} {what}: {self.log.read_text()[-LOG_TAIL:]}")


class Processes:
    """What runs on one database: a server with a worker inside on SQLite, a server and two workers on PostgreSQL."""

    def __init__(self, folder: Path, database_url: str, sandbox: SandboxProcess, **settings: str) -> None:
        port = _free_port()
        self.url = f"http://127.0.0.1:{port}"
        self.storage = folder / "objects"
        own = {f"LONGTAKE_{name.upper()}": value for name, value in settings.items()}
        self.place = Place(folder, _settings(database_url, self.storage, port, sandbox) | own)
        if database_url.startswith(SQLITE):
            self.all = [Killable(self.place, "server", "serve")]
        else:
            workers = [Killable(self.place, f"worker-{number}", "worker") for number in (1, 2)]
            self.all = [Killable(self.place, "server", "serve", "--no-worker"), *workers]

    @property
    def kills(self) -> int:
        return sum(one.kills for one in self.all)

    @property
    def complaints(self) -> list[str]:
        """Return what went wrong with processes that nobody had killed."""
        return list(itertools.chain.from_iterable(one.complaints for one in self.all))

    def logs(self) -> str:
        """Return all that the processes wrote."""
        return "".join(one.log.read_text() for one in self.all)

    def start(self) -> None:
        for one in self.all:
            one.start()

    def stop(self) -> None:
        """Stop all of them in order."""
        for one in self.all:
            one.stop()

    def end(self) -> None:
        """Leave nothing behind, however the test went."""
        for one in self.all:
            one.kill()


def _settings(database_url: str, storage: Path, port: int, sandbox: SandboxProcess) -> dict[str, str]:
    return {
        "LONGTAKE_DATABASE_URL": database_url,
        "LONGTAKE_STORAGE_URL": f"file:{storage}",
        "LONGTAKE_PORT": str(port),
        # Providers call back where the killed server was, and find the next one.
        "LONGTAKE_PUBLIC_URL": f"http://127.0.0.1:{port}",
        "LONGTAKE_LEASE_SECONDS": str(LEASE_SECONDS),
        "LONGTAKE_HEARTBEAT_SECONDS": str(HEARTBEAT_SECONDS),
        "LONGTAKE_REQUESTS_PER_MINUTE": "60000",
        "LONGTAKE_SECRET_KEY": SECRET,
        "LONGTAKE_JWT_SECRET": SECRET,
        "LONGTAKE_ALLOW_ADDRESSES": "127.0.0.1/32",
        "LONGTAKE_KIE_API_KEY": sandbox.key,
        "LONGTAKE_KIE_BASE_URL": sandbox.kie_url,
        "LONGTAKE_GEMINI_API_KEY": sandbox.key,
        "LONGTAKE_GEMINI_BASE_URL": sandbox.gemini_url,
    }


def _free_port() -> int:
    for port in random.SystemRandom().sample(PORTS, 50):
        with socket.socket() as candidate:
            candidate.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                candidate.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port
    raise AssertionError("Of 50 ports none is free.")
