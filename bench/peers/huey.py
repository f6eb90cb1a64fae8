"""Huey on SQLite with its own consumer.

Queues are filled without fsync in both cases: only the consumer is measured.
"""

from pathlib import Path
from typing import Any

from bench.moments import Moments
from bench.settled import sqlite_file

# The default, and the fastest by far: further threads only wait for the one lock around its connection.
THREADS = 1


def application(url: str, moments: Moments | None, *, fsync: bool) -> tuple[Any, Any]:
    from huey import SqliteHuey

    huey = SqliteHuey("bench", filename=sqlite_file(url), fsync=fsync)

    @huey.task()
    def noop(number: int) -> None:
        assert moments is not None
        moments.mark(number)

    return huey, noop


def fill(url: str, jobs: int, fsync: bool) -> None:  # noqa: ARG001, FBT001 - the same options for filling and working
    _, noop = application(url, None, fsync=False)
    for number in range(jobs):
        noop(number)


def work(url: str, moments: str, fsync: bool) -> None:  # noqa: FBT001 - arguments arrive by name, from JSON
    huey, _ = application(url, Moments(Path(moments)), fsync=fsync)
    huey.create_consumer(workers=THREADS, worker_type="thread").run()
