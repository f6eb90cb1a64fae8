"""The same no-op job on PostgreSQL: Longtake, two peers, and the limit of plain SQL; nothing is analyzed by hand."""

from collections.abc import Callable

from bench import children, ours, peers
from bench.ground import Ground
from bench.rows import Row, compared, limited

UNIT = "jobs/s"
RAW = "plain SQL, batch 50"
RAW_LARGE = "plain SQL, batch 500"


def rows(ground: Ground) -> list[Row]:
    figures = ground.rounds(
        {
            "longtake": ground.drain_on("postgresql", ours.ON_POSTGRESQL),
            **{peer.name: ground.drain_on("postgresql", peer) for peer in peers.ON_POSTGRESQL},
            RAW: raw_limit(ground, 50),
            RAW_LARGE: raw_limit(ground, 500),
        }
    )
    mine = figures["longtake"]
    name = f"drain on PostgreSQL, {ground.options.number(ours.ON_POSTGRESQL.jobs):,} no-op jobs"
    goals = {peers.PGQUEUER.name: ">= 1.2", peers.PROCRASTINATE.name: ">= 20", RAW: ">= 0.5"}
    measured = [compared(name, mine, UNIT, peer, figures[peer], goal) for peer, goal in goals.items()]
    # Some planners' luck: autovacuum's ANALYZE in mid-run doubles pgqueuer. So its best case is shown as well.
    analyzed = peers.PGQUEUER_ANALYZED.name
    return [
        *measured,
        compared(name, mine, UNIT, analyzed, figures[analyzed], None),
        limited(f"{RAW_LARGE}: limit on PostgreSQL", figures[RAW_LARGE], UNIT, None),
    ]


def raw_limit(ground: Ground, batch: int) -> Callable[[], float]:
    def run() -> float:
        with ground.database("postgresql") as url:
            jobs = ground.options.number(ours.ON_POSTGRESQL.jobs)
            return float(children.call("bench.raw:drain_postgresql", url=url, jobs=jobs, batch=batch))

    return run
