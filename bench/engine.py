"""The benchmark `engine`: Longtake's engine beside its peers, and beside what it promises."""

from collections.abc import Callable
from contextlib import ExitStack

from bench.ground import Ground, Options, say
from bench.parts import (
    drain_postgresql,
    drain_sqlite,
    group_commit,
    growth,
    latency,
    realistic,
    redis,
    restart,
    snoozing,
)
from bench.rows import Row

PARTS: dict[str, Callable[[Ground], list[Row]]] = {
    "drain-postgresql": drain_postgresql.rows,
    "drain-sqlite": drain_sqlite.rows,
    "realistic": realistic.rows,
    "latency": latency.rows,
    "group-commit": group_commit.rows,
    "growth": growth.rows,
    "snoozing": snoozing.rows,
    "restart": restart.rows,
    "redis": redis.rows,
}


def rows(options: Options) -> list[Row]:
    measured: list[Row] = []
    with ExitStack() as stack:
        ground = Ground(options, stack)
        for part in parts_wanted(options):
            say(f"{part} …")
            measured.extend(PARTS[part](ground))
    return measured


def parts_wanted(options: Options) -> list[str]:
    if options.only:
        return [part for part in PARTS if part in options.only]
    return [part for part in PARTS if part != "redis" or options.redis]
