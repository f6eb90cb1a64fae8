"""One process owns a SQLite file; others are told who; the system gives it back however the owner dies.

An orderly end leaves one file: its log is empty or gone.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import sqlite3
import subprocess
import sys
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

from longtake import open_database
from longtake.db import sqlite_path
from longtake.db.errors import DatabaseOwned
from longtake.db.ownership import lock_path
from longtake.db.sqlite_connection import BUSY_SECONDS
from longtake.server.open_database import migrate_service

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from longtake import Database, Transaction

HOLD = """
import sys
from longtake import open_database
database = open_database(sys.argv[1], owner="longtake serve")
print("open", flush=True)
sys.stdin.read()
database.close()
"""


@contextmanager
def holder(url: str) -> Iterator[subprocess.Popen[str]]:
    """Another process that has the file open until its input ends."""
    command = [sys.executable, "-c", HOLD, url]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "open\n"
            yield process
        finally:
            process.kill()


def test_a_second_process_is_refused_and_told_who_has_it(sqlite_url: str) -> None:
    with holder(sqlite_url) as process:
        with pytest.raises(DatabaseOwned) as raised:
            open_database(sqlite_url)
        assert f"in use by longtake serve (process {process.pid})" in raised.value.message
        with pytest.raises(DatabaseOwned, match="longtake serve"):
            migrate_service(sqlite_url)


def test_closing_gives_the_file_to_the_next(sqlite_url: str) -> None:
    with holder(sqlite_url) as process:
        process.communicate(timeout=30)
        assert process.returncode == 0
        open_database(sqlite_url).close()


def test_kill_9_gives_the_file_to_the_next(sqlite_url: str) -> None:
    with holder(sqlite_url) as process:
        process.kill()
        process.wait(timeout=30)
        open_database(sqlite_url).close()


def test_a_second_opening_in_the_same_process_is_refused_too(sqlite_url: str) -> None:
    first = open_database(sqlite_url, owner="the first")
    with pytest.raises(DatabaseOwned, match="the first"):
        open_database(sqlite_url)
    first.close()
    open_database(sqlite_url).close()


def test_a_failed_opening_lets_go_of_the_file(tmp_path: Path) -> None:
    path = tmp_path / "longtake.db"
    path.write_bytes(b"this is no database, but long enough to look like one" * 100)
    with pytest.raises(Exception, match="not a database"):
        open_database(f"sqlite:///{path}")
    path.unlink()
    migrate_service(f"sqlite:///{path}")
    open_database(f"sqlite:///{path}").close()


def test_each_opening_has_its_own_name(sqlite_url: str) -> None:
    names = set()
    for _ in range(2):
        database = open_database(sqlite_url)
        names.add(database.incarnation)
        database.close()
    assert len(names) == 2
    assert None not in names


def test_two_processes_share_postgresql(postgresql_url: str) -> None:
    with holder(postgresql_url):
        database = open_database(postgresql_url)
        assert database.incarnation is None
        database.close()


def test_the_lock_lies_beside_the_file(sqlite_url: str, tmp_path: Path) -> None:
    database = open_database(sqlite_url, owner="longtake serve")
    assert lock_path(tmp_path / "longtake.db").read_text().startswith("longtake serve (process ")
    database.close()


async def fill_log(database: Database) -> None:
    """Leave a log of over a megabyte, and connections that have used their statements."""

    def write(tx: Transaction) -> None:
        tx.sql("CREATE TABLE IF NOT EXISTS filler (content BLOB)")
        tx.sql("INSERT INTO filler VALUES (zeroblob(200000))")
        assert tx.sql("SELECT count(*) FROM filler") != []

    def read(tx: Transaction) -> None:
        assert tx.sql("SELECT count(*) FROM filler WHERE content IS NOT NULL") != []

    for _ in range(6):
        await database.run(write)
        await asyncio.gather(*(database.read(read) for _ in range(4)))


def log_size(path: Path) -> int:
    log = path.with_name(f"{path.name}-wal")
    return log.stat().st_size if log.exists() else 0


@pytest.mark.parametrize("reader", ["no other program", "a program that reads", "a function that left a statement"])
async def test_closing_leaves_no_log_behind(sqlite_url: str, reader: str) -> None:
    def leave_statement(tx: Transaction) -> None:
        tx._cursor.execute("SELECT content FROM filler")

    path = sqlite_path(sqlite_url)
    database = open_database(sqlite_url)
    await fill_log(database)
    if reader == "a function that left a statement":
        await database.read(leave_statement)
        await database.run(leave_statement)
    assert log_size(path) > 1_000_000
    with contextlib.closing(sqlite3.connect(path)) as other:
        if reader == "a program that reads":
            assert other.execute("SELECT count(*) FROM filler").fetchone() == (6,)
        # Whatever the collector would have closed later must be closed now.
        gc.disable()
        try:
            database.close()
        finally:
            gc.enable()
        assert log_size(path) == 0
        assert other.execute("SELECT count(*) FROM filler").fetchone() == (6,)


async def test_closing_does_not_wait_long_for_a_program_in_the_middle_of_reading(sqlite_url: str) -> None:
    path = sqlite_path(sqlite_url)
    database = open_database(sqlite_url)
    await fill_log(database)
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN")
        other.execute("SELECT count(*) FROM filler").fetchone()
        began = time.monotonic()
        database.close()
        assert time.monotonic() - began < BUSY_SECONDS
        # What it reads stays as it was, and the log is there for it.
        assert other.execute("SELECT count(*) FROM filler").fetchone() == (6,)
    open_database(sqlite_url).close()
    assert log_size(path) == 0
