"""The same no-op job on PostgreSQL: Longtake, two peers, and the limit of plain SQL; nothing is analyzed by hand."""

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
            "longtake": ground.drain_on("postgresql", ours.ON_POSTGRESQL),
            **{ground.label(peer): ground.drain_on("postgresql", peer) for peer in peers.ON_POSTGRESQL},
            RAW: raw_limit(ground, 50),
            RAW_LARGE: raw_limit(ground, 500),
        }
    )
    mine = figures["longtake"]
    name = f"drain on PostgreSQL, {ground.options.number(ours.ON_POSTGRESQL.jobs):,} no-op jobs"
    goals = {
        ground.label(peers.PGQUEUER): ">= 1.2",
        ground.label(peers.PROCRASTINATE): ">= 20",
        RAW: ">= 0.5",
        # Without statistics pgqueuer can be half as fast, and autovacuum's timing decides: so its best case is shown.
        ground.label(peers.PGQUEUER_ANALYZED): None,
        RAW_LARGE: None,
    }
    return [compared(name, mine, UNIT, peer, figures[peer], goal) for peer, goal in goals.items()]


def raw_limit(ground: Ground, batch: int) -> Callable[[], float]:
    def run() -> float:
        with ground.database("postgresql") as url:
            jobs = ground.options.number(ours.ON_POSTGRESQL.jobs)
            return float(children.call("bench.raw:drain_postgresql", url=url, jobs=jobs, batch=batch))

    return run
