"""One process owns a SQLite file; others are told who; the system gives it back however the owner dies."""

from __future__ import annotations

import subprocess
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

from longtake import migrate_up, open_database
from longtake.db.ownership import lock_path
from longtake.errors import DatabaseOwned

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

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
            migrate_up(sqlite_url)


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
    migrate_up(f"sqlite:///{path}")
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
