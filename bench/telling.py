"""A job that writes users' events at a steady rate, one transaction each, inside Longtake's own processes.

A SQLite file belongs to its server, so nobody outside can write events there as fast as the server hears of them. The
job is put into the table by plain SQL, as any program may.
"""

import asyncio
import json
import sqlite3
import time
from contextlib import closing
from typing import TYPE_CHECKING

from bench.service import Service
from bench.settled import sqlite_file

if TYPE_CHECKING:
    from longtake.db import Database, Transaction
    from longtake.engine.jobs import Job
    from longtake.engine.outcomes import Outcome
    from longtake.server.application import Application

KIND = "bench.tell"
APPLICATION = "bench.telling:register"
TIME_LIMIT = 120.0
TICK_SECONDS = 0.02
#: A progress as it is written of running tasks: about as long as events are.
EVENT = {"status": "running", "progress": 0.5}
SUBJECT = "019a8f6e-5d0c-7c41-9f53-0f6d1f2b7a10"


def register(application: "Application") -> None:
    from longtake.engine.kinds import JobKind
    from longtake.engine.outcomes import Done

    async def run(job: "Job") -> "Outcome":
        await tell(application.database, **job.args)
        return Done()

    application.add(kinds=[JobKind(KIND, run, time_limit=TIME_LIMIT, max_attempts=1)])


def order(service: Service, events: int, rate: float, users: list[str]) -> None:
    """Have so many events written at this rate, to one user after the other; a worker of the service does it."""
    arguments = json.dumps({"events": events, "rate": rate, "users": users})
    if service.dialect == "sqlite":
        with closing(sqlite3.connect(sqlite_file(service.database), isolation_level=None, timeout=5)) as connection:
            connection.execute("INSERT INTO jobs (kind, args) VALUES (?, ?)", (KIND, arguments))
    else:
        import psycopg

        with psycopg.connect(service.database, autocommit=True) as session:
            session.execute("INSERT INTO jobs (kind, args) VALUES (%s, %s)", (KIND, arguments))


async def tell(database: "Database", events: int, rate: float, users: list[str]) -> None:
    """Write by the clock: whatever is due at a tick is written at once, whether or not earlier writes are done."""
    start = time.monotonic()
    written: list[asyncio.Task[None]] = []
    while len(written) < events:
        due = min(int((time.monotonic() - start + TICK_SECONDS) * rate), events)
        written += [
            asyncio.create_task(database.run(write, users[number % len(users)]))
            for number in range(len(written), due)
        ]  # fmt: skip
        await asyncio.sleep(TICK_SECONDS)
    await asyncio.gather(*written)


def write(tx: "Transaction", user_id: str) -> None:
    from longtake.engine.events import append_event

    append_event(tx, "task.progress", subject=SUBJECT, user_id=user_id, data=EVENT)
