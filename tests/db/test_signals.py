"""Hints that something changed: inside the process, between processes, and from outside programs."""

from __future__ import annotations

import queue
import sqlite3
from typing import TYPE_CHECKING, Any

import psycopg
import pytest

from longtake import open_database
from tests.wait import PATIENCE_SECONDS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from longtake import Database
    from longtake.db.sqlite import SqliteDatabase

#: What one connection waits for at a commit, and who said so.
COMMITS = "SELECT setting, source FROM pg_settings WHERE name = 'synchronous_commit'"


class Heard:
    """A subscriber that remembers."""

    def __init__(self, database: Database) -> None:
        self.topics: queue.Queue[str] = queue.Queue()
        self.unsubscribe = database.signals.subscribe(self.topics.put)

    def next(self) -> str:
        return self.topics.get(timeout=PATIENCE_SECONDS)


@pytest.fixture
def pair(postgresql_url: str) -> Iterator[tuple[Database, Database]]:
    """Two openings of one database, as two processes have them."""
    first, second = open_database(postgresql_url), open_database(postgresql_url)
    yield first, second
    first.close()
    second.close()


def listen(database: Database) -> Heard:
    """Subscribe and wait until NOTIFY is really listened to, which is told as "jobs"."""
    heard = Heard(database)
    assert heard.next() == "jobs"
    return heard


def test_a_signal_is_heard_in_the_same_process_at_once(database: Database) -> None:
    heard: list[str] = []
    unsubscribe = database.signals.subscribe(heard.append)
    database.signals.send("cancel")
    assert heard.count("cancel") == 1
    unsubscribe()
    database.signals.send("cancel")
    assert heard.count("cancel") == 1


def test_a_signal_reaches_another_opening_and_does_not_come_back(pair: tuple[Database, Database]) -> None:
    first, second = pair
    heard_first, heard_second = listen(first), listen(second)
    first.signals.send("cancel")
    assert heard_first.next() == "cancel"
    assert heard_second.next() == "cancel"
    second.signals.send("afterwards")
    assert heard_first.next() == "afterwards"
    assert heard_first.topics.empty()


def test_many_signals_at_once_are_few_notifications(pair: tuple[Database, Database]) -> None:
    first, second = pair
    heard = listen(second)
    for _ in range(1000):
        first.signals.send("jobs")
    first.signals.send("last")
    topics = [heard.next()]
    while topics[-1] != "last":
        topics.append(heard.next())
    # A set is sent each time, so "jobs" may come once more after "last"; far fewer than were sent in any case.
    assert topics.count("jobs") < 200


def test_signals_do_not_wait_for_the_disk(pair: tuple[Database, Database], monkeypatch: pytest.MonkeyPatch) -> None:
    """What they tell of is durable already, and a lost hint is made good by the next poll."""
    first, second = pair
    heard = listen(second)
    execute = psycopg.Connection.execute
    sent: list[Any] = []

    def noted(connection: psycopg.Connection[Any], query: Any, *rest: Any) -> Any:
        if "pg_notify" in str(query):
            sent.append(execute(connection, COMMITS).fetchone())
        return execute(connection, query, *rest)

    monkeypatch.setattr(psycopg.Connection, "execute", noted)
    first.signals.send("cancel")
    assert heard.next() == "cancel"
    # The tests' own server never waits: so who said it counts.
    assert sent == [("off", "session")]


def test_after_a_lost_connection_it_listens_again(pair: tuple[Database, Database], postgresql_url: str) -> None:
    first, second = pair
    heard = listen(second)
    with psycopg.connect(postgresql_url, autocommit=True) as connection:
        ended = connection.execute(
            "SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity WHERE query LIKE 'LISTEN%'"
        ).fetchall()
    assert ended == [(True,)]
    assert heard.next() == "jobs"
    first.signals.send("cancel")
    assert heard.next() == "cancel"


def test_a_sender_that_lost_its_connection_sends_again(pair: tuple[Database, Database], postgresql_url: str) -> None:
    first, second = pair
    heard = listen(second)
    first.signals.send("one")
    assert heard.next() == "one"
    with psycopg.connect(postgresql_url, autocommit=True) as connection:
        connection.execute(
            "SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity WHERE query LIKE '%pg_notify%'"
            " AND pid <> pg_backend_pid()"
        )
    # The first after the loss may be lost: it is only a hint. Sending goes on.
    for _ in range(100):
        first.signals.send("two")
        try:
            assert heard.topics.get(timeout=0.2) == "two"
            break
        except queue.Empty:
            continue
    else:
        pytest.fail("nothing was heard any more")


def test_an_outside_write_to_the_sqlite_file_is_noticed(sqlite_noted: SqliteDatabase) -> None:
    heard = Heard(sqlite_noted)
    outside = sqlite3.connect(sqlite_noted.path)
    outside.execute("INSERT INTO notes VALUES (1)")
    outside.commit()
    outside.close()
    assert heard.next() == "jobs"


def test_own_writes_are_not_taken_for_outside_ones(sqlite_noted: SqliteDatabase) -> None:
    from tests.db.notes import add_note

    before = sqlite_noted.run_blocking(lambda _tx: sqlite_noted._writer.outside_version())
    sqlite_noted.run_blocking(add_note, 1)
    assert sqlite_noted.run_blocking(lambda _tx: sqlite_noted._writer.outside_version()) == before
