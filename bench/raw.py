"""The limit that plain SQL sets: one connection, one loop, claim a batch and commit, delete the batch and commit.

No attempts, no leases, no history, no handlers: what remains is what the database itself costs with fsync on.
"""

import sqlite3
import time
from contextlib import closing
from typing import TYPE_CHECKING

from bench.settled import sqlite_file

if TYPE_CHECKING:
    import psycopg

CLAIM = """
UPDATE raw_jobs SET state = 'running'
WHERE id IN (SELECT id FROM raw_jobs WHERE state = 'ready' ORDER BY id LIMIT %(batch)s FOR UPDATE SKIP LOCKED)
RETURNING id, args
"""
CLAIM_SQLITE = """
UPDATE raw_jobs SET state = 'running'
WHERE id IN (SELECT id FROM raw_jobs WHERE state = 'ready' ORDER BY id LIMIT ?)
RETURNING id, args
"""


def drain_postgresql(url: str, jobs: int, batch: int) -> float:
    """Fill the table, then return jobs per second."""
    import psycopg

    with psycopg.connect(url) as connection:
        connection.execute("CREATE TABLE raw_jobs (id bigint PRIMARY KEY, state text NOT NULL, args jsonb NOT NULL)")
        connection.execute("CREATE INDEX ON raw_jobs (id) WHERE state = 'ready'")
        connection.execute(
            "INSERT INTO raw_jobs SELECT n, 'ready', jsonb_build_object('n', n) FROM generate_series(1, %s) n", [jobs]
        )
        connection.commit()
        # Prepared on the server from the first use.
        connection.prepare_threshold = 0
        start = time.monotonic()
        done = 0
        while done < jobs:
            done += work_batch(connection, batch)
        return jobs / (time.monotonic() - start)


def work_batch(connection: "psycopg.Connection", batch: int) -> int:
    claimed = connection.execute(CLAIM, {"batch": batch}).fetchall()
    connection.commit()
    connection.execute("DELETE FROM raw_jobs WHERE id = ANY(%s)", [[row[0] for row in claimed]])
    connection.commit()
    return len(claimed)


def drain_sqlite(url: str, jobs: int, batch: int) -> float:
    """As `drain_postgresql`, with the durability that Longtake ships: WAL and synchronous=FULL."""
    with closing(sqlite3.connect(sqlite_file(url), isolation_level=None)) as connection:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute("CREATE TABLE raw_jobs (id INTEGER PRIMARY KEY, state TEXT NOT NULL, args TEXT NOT NULL)")
        connection.execute("CREATE INDEX raw_ready ON raw_jobs (id) WHERE state = 'ready'")
        connection.execute("BEGIN")
        rows = ((number, "ready", f'{{"n": {number}}}') for number in range(jobs))
        connection.executemany("INSERT INTO raw_jobs VALUES (?, ?, ?)", rows)
        connection.execute("COMMIT")
        start = time.monotonic()
        done = 0
        while done < jobs:
            done += work_sqlite_batch(connection, batch)
        return jobs / (time.monotonic() - start)


def work_sqlite_batch(connection: sqlite3.Connection, batch: int) -> int:
    connection.execute("BEGIN IMMEDIATE")
    claimed = connection.execute(CLAIM_SQLITE, [batch]).fetchall()
    connection.execute("COMMIT")
    connection.execute("BEGIN IMMEDIATE")
    connection.executemany("DELETE FROM raw_jobs WHERE id = ?", [(row[0],) for row in claimed])
    connection.execute("COMMIT")
    return len(claimed)
