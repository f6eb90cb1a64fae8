"""How fast unfinished tasks are asked about when nothing limits it: all of them due at the start of a worker.

The clock runs from the start of the process, interpreter and imports included, until the sandbox was asked about the
last one for the first time.
"""

import sqlite3
import time
from collections.abc import Callable
from contextlib import ExitStack, closing

from bench import flight
from bench.ground import Ground
from bench.rows import Row, limited
from bench.service import LABELS, Service, service_on
from bench.settled import sqlite_file

TASKS = 500
LIMIT_SECONDS = 60.0
DUE = "UPDATE jobs SET due_at = '2001-01-01 00:00:00.000000+00' WHERE kind = 'generation.poll'"


def rows(ground: Ground) -> list[Row]:
    with ExitStack() as stack:
        contenders = {}
        for dialect in LABELS:
            service = stack.enter_context(service_on(ground, dialect))
            flight.fill(service, ground.sandbox.tasks(TASKS))
            service.open_lane("kie.query")
            contenders[dialect] = poll_all(ground, service)
        figures = ground.rounds(contenders)
    name = f"{TASKS} unfinished tasks polled with the lane open, from the start of a worker"
    return [limited(f"{name}, on {LABELS[dialect]}", figures[dialect], "s", "< 5 s") for dialect in LABELS]


def poll_all(ground: Ground, service: Service) -> Callable[[], float]:
    def run() -> float:
        make_due(service)
        ground.sandbox.forget()
        start = time.monotonic()
        with service.running("worker") as worker:
            while ground.sandbox.answered("query") < TASKS:
                worker.check()
                if time.monotonic() - start > LIMIT_SECONDS:
                    raise TimeoutError(f"not all tasks were asked about within {LIMIT_SECONDS:g} s")
                time.sleep(0.02)
        first: dict[str, float] = {}
        for call in ground.sandbox.queries():
            first.setdefault(call["task"], call["monotonic"])
        assert len(first) == TASKS, f"only {len(first)} of {TASKS} tasks were asked about"
        return max(first.values()) - start

    return run


def make_due(service: Service) -> None:
    """Have every task polled again now; no process is on the database meanwhile."""
    if service.dialect == "sqlite":
        with closing(sqlite3.connect(sqlite_file(service.database))) as connection, connection:
            connection.execute(DUE.replace("+00'", "'"))
    else:
        import psycopg

        with psycopg.connect(service.database, autocommit=True) as session:
            session.execute(DUE.encode())
