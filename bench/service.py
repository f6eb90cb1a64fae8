"""Longtake as people run it: `serve`, `worker` and commands as processes of their own, on one database."""

import copy
import http.client
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from bench import children, servers
from bench.ground import Ground, temporary_folder
from bench.outside import Sandbox, wait_until_answering

COMMAND_SECONDS = 30.0
#: What would refuse a measurement's own users; everything else is as shipped.
OPENED = {"LONGTAKE_REQUESTS_PER_MINUTE": "1000000", "LONGTAKE_UNFINISHED_TASKS": "100000"}
LABELS = {"postgresql": "PostgreSQL", "sqlite": "SQLite FULL"}


class Service:
    """One database, and the processes on it."""

    def __init__(self, dialect: str, database: str, folder: str, sandbox: Sandbox) -> None:
        self.dialect = dialect
        self.database = database
        self.port = servers.free_port()
        # Settings of whoever measures must not change the figures.
        inherited = {name: value for name, value in os.environ.items() if not name.startswith("LONGTAKE_")}
        self.environment = inherited | OPENED | sandbox.settings() | {
            "LONGTAKE_DATA_DIR": folder,
            "LONGTAKE_DATABASE_URL": database,
            "LONGTAKE_STORAGE_URL": f"file:{folder}/objects",
            "LONGTAKE_PORT": str(self.port),
            "LONGTAKE_LOG_LEVEL": "warning",
        }  # fmt: skip

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def another(self) -> "Service":
        """Return the same service on another port: a second server for the same users."""
        other = copy.copy(self)
        other.port = servers.free_port()
        other.environment = self.environment | {"LONGTAKE_PORT": str(other.port)}
        return other

    def command(self, *arguments: str) -> str:
        """Run a command of the command line and return what it prints."""
        finished = subprocess.run(
            [sys.executable, "-m", "longtake", *arguments],
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=COMMAND_SECONDS,
            check=False,
        )
        if finished.returncode:
            raise children.ChildFailed(f"longtake {arguments[0]}: {finished.stderr.strip()[-200:]}")
        return finished.stdout.strip()

    @contextmanager
    def running(self, *arguments: str) -> Iterator[children.Child]:
        """Run `serve` or `worker` until the block ends; a server is waited for."""
        command = [sys.executable, "-m", "longtake", *arguments]
        with children.program(f"longtake {arguments[0]}", command, self.environment) as process:
            if arguments[0] == "serve":
                wait_until_answering(self._ask_readiness, process)
            yield process

    def open_lane(self, name: str) -> None:
        """Take all limits away, as an operator would; what the program declares at its start does not win."""
        self.command("lanes", "set", name, "--rate", "none")

    def _ask_readiness(self) -> None:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=5)
        try:
            connection.request("GET", "/readyz")
            connection.getresponse().read()
        finally:
            connection.close()


@contextmanager
def service_on(ground: Ground, dialect: str, folder: str | None = None) -> Iterator[Service]:
    """Yield a service on a fresh database whose schema is up to date; nothing runs yet.

    Its files go with it, unless they are in a folder of the caller's.
    """
    with ExitStack() as stack:
        if folder is None:
            folder = stack.enter_context(temporary_folder())
        service = Service(dialect, stack.enter_context(ground.database(dialect)), folder, ground.sandbox)
        service.command("migrate", "up")
        yield service
