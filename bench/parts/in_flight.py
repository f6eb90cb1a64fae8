"""What following costs: 10,000 tasks in flight on one worker, each asked about every 30 s, with the lane open.

A poll's delay is the time of its arrival at the sandbox minus the time at which it was due. Due times are read from the
jobs' rows by a second connection, often enough to see each of them before it has passed, so the worker's own view of
time plays no part; both times are of the machine's one wall clock. A poll that never came counts with the time it was
overdue when the counting ended.
"""

import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import pairwise
from typing import Any

from bench import flight
from bench.ground import Ground, reason, say
from bench.rows import Measured, Row, limited
from bench.service import LABELS, Service, service_on
from bench.settled import sqlite_file
from bench.usage import memory_bytes, processor_seconds, server_seconds

TASKS = 10_000
CYCLE_SECONDS = 30.0
#: The first polls are due when the worker is surely up.
START_SECONDS = 4.0
SETTLE_SECONDS = 4.0
#: The longest wait: each task is asked about at least once.
WINDOW_SECONDS = 33.0
#: A wait is 27 s at the least: looking this often, no due time is missed.
LOOK_SECONDS = 9.0
LAST_SECONDS = 4.0
READY = "FROM jobs WHERE kind = 'generation.poll' AND state = 'ready'"


@dataclass
class Watched:
    """What was seen of one worker."""

    #: Every moment at which a task, by its remote id, was to be asked about.
    due: set[tuple[str, float]] = field(default_factory=set)
    processor: float = 0.0
    server: float = 0.0
    memory: int = 0
    begin: float = 0.0
    end: float = 0.0


def rows(ground: Ground) -> list[Row]:
    return [row for dialect in LABELS for row in rows_on(ground, dialect)]


def rows_on(ground: Ground, dialect: str) -> list[Row]:
    tasks = ground.options.number(TASKS)
    name = f"{tasks:,} tasks in flight on one worker, {LABELS[dialect]}"
    try:
        watched, delays, asked = observe(ground, dialect, tasks)
        assert asked > 0.8 * tasks * WINDOW_SECONDS / CYCLE_SECONDS, f"only {asked} polls came"
    except Exception as failure:  # noqa: BLE001 - whatever it was, it is the reason for the missing figures
        missing = Measured(reason=reason(failure))
        return [limited(f"{name}: poll delay, p99", missing, "s", "< 5 s")]
    part = 100 / WINDOW_SECONDS
    result = [
        limited(f"{name}: polls", Measured(asked / WINDOW_SECONDS), "a second", None),
        limited(f"{name}: poll delay, p50", Measured(delays[len(delays) // 2]), "s", None),
        limited(f"{name}: poll delay, p99", Measured(delays[int(len(delays) * 0.99)]), "s", "< 5 s"),
        limited(f"{name}: worker's processor", Measured(watched.processor * part), "% of a core", "<= 60 % of a core"),
        limited(f"{name}: worker's memory, at most", Measured(watched.memory / 1_000_000), "MB", None),
    ]
    if dialect == "postgresql":
        server = Measured(watched.server * part)
        result.append(limited(f"{name}: database server's processor", server, "% of a core", None))
    return result


def observe(ground: Ground, dialect: str, tasks: int) -> tuple[Watched, list[float], int]:
    sandbox = ground.sandbox
    with service_on(ground, dialect) as service:
        service.open_lane("kie.query")
        flight.fill(service, sandbox.tasks(tasks), first=START_SECONDS, spread=CYCLE_SECONDS)
        with service.running("worker") as worker:
            time.sleep(START_SECONDS + SETTLE_SECONDS)
            sandbox.forget()
            server = ground.postgresql.pid if dialect == "postgresql" else None
            say(f"  watching {tasks:,} tasks on {dialect} for {WINDOW_SECONDS + LAST_SECONDS:g} s …")
            watched = watch(service, worker.pid, server)
            time.sleep(LAST_SECONDS)
            worker.check()
        calls = [call for call in sandbox.queries() if call["status"] == 200]
    times = [float(call["at"]) for call in calls if watched.begin <= call["at"] < watched.end]
    silence = max((later - earlier for earlier, later in pairwise(times)), default=WINDOW_SECONDS)
    # Tells a worker that falls behind from a machine that stood still.
    say(f"  {len(times):,} polls came, the longest silence between two was {silence:.2f} s")
    return watched, delays_of(watched, calls), len(times)


def watch(service: Service, worker: int, server: int | None) -> Watched:
    watched = Watched()
    with due_times(service) as look:
        watched.due |= look()
        before = processor_seconds(worker), server_seconds(server) if server else 0.0
        watched.begin = watched.end = time.time()
        next_look = watched.begin + LOOK_SECONDS
        while watched.end - watched.begin < WINDOW_SECONDS:
            watched.memory = max(watched.memory, memory_bytes(worker))
            time.sleep(1.0)
            watched.end = time.time()
            if watched.end >= next_look:
                next_look += LOOK_SECONDS
                watched.due |= look()
        watched.processor = processor_seconds(worker) - before[0]
        watched.server = server_seconds(server) - before[1] if server else 0.0
    return watched


def delays_of(watched: Watched, calls: list[dict[str, Any]]) -> list[float]:
    """Return by how much each poll came late, in order; of those that were due while we watched."""
    arrivals: dict[str, list[float]] = {}
    for call in calls:
        arrivals.setdefault(call["task"], []).append(float(call["at"]))
    last = max((float(call["at"]) for call in calls), default=watched.end)
    delays = []
    for task, due in watched.due:
        if watched.begin <= due < watched.end:
            came = next((at for at in arrivals.get(task, []) if at >= due), max(last, watched.end))
            delays.append(came - due)
    return sorted(delays)


@contextmanager
def due_times(service: Service) -> Iterator[Any]:
    """Yield a function that returns the due times of all waiting polls, by the remote ids of their tasks."""
    if service.dialect == "sqlite":
        query = f"SELECT json_extract(args, '$.id'), due_at {READY}"
        address = f"file:{sqlite_file(service.database)}?mode=ro"
        with closing(sqlite3.connect(address, uri=True, isolation_level=None)) as connection:
            yield lambda: {(task, wall_clock(due)) for task, due in connection.execute(query)}
    else:
        import psycopg

        query = f"SELECT args->>'id', extract(epoch FROM due_at)::float8 {READY}"
        with psycopg.connect(service.database, autocommit=True) as session:
            yield lambda: set(session.execute(query.encode()).fetchall())


def wall_clock(text: str) -> float:
    return datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp()
