"""The benchmark `engine`: Longtake's engine beside its peers, and beside what it promises."""

from collections.abc import Callable

from bench.ground import Ground, Options, measure
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
    return measure(options, {part: PARTS[part] for part in PARTS if part != "redis" or options.redis or options.only})
