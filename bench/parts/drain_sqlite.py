"""The same no-op job on SQLite with synchronous=FULL, beside huey with and without fsync, and plain SQL."""

from collections.abc import Callable

from bench import children, ours, peers
from bench.ground import Ground
from bench.rows import Row, compared

UNIT = "jobs/s"
RAW = "plain SQL, batch 50"
RAW_LARGE = "plain SQL, batch 500"


def rows(ground: Ground) -> list[Row]:
    figures = ground.rounds(
        {
            "longtake": ground.drain_on("sqlite", ours.ON_SQLITE),
            **{ground.label(peer): ground.drain_on("sqlite", peer) for peer in (peers.HUEY_FAST, peers.HUEY_SAFE)},
            RAW: raw_limit(ground, 50),
            RAW_LARGE: raw_limit(ground, 500),
        }
    )
    name = f"drain on SQLite FULL, {ground.options.number(ours.ON_SQLITE.jobs):,} no-op jobs"
    goals = {ground.label(peers.HUEY_FAST): ">= 1.0", ground.label(peers.HUEY_SAFE): ">= 3", RAW: None, RAW_LARGE: None}
    mine = figures["longtake"]
    return [compared(name, mine, UNIT, peer, figures[peer], goal) for peer, goal in goals.items()]


def raw_limit(ground: Ground, batch: int) -> Callable[[], float]:
    def run() -> float:
        with ground.database("sqlite") as url:
            jobs = ground.options.number(ours.ON_SQLITE.jobs)
            return float(children.call("bench.raw:drain_sqlite", url=url, jobs=jobs, batch=batch))

    return run
