"""Longtake on PostgreSQL, every step durable, beside queues that keep their jobs in Redis's memory."""

from collections.abc import Callable
from contextlib import closing

from bench import ours, peers
from bench.drain import Contender
from bench.ground import Ground
from bench.rows import Row, compared


def rows(ground: Ground) -> list[Row]:
    figures = ground.rounds(
        {
            "longtake": ground.drain_on("postgresql", ours.ON_POSTGRESQL),
            **{ground.label(peer): drain_on_redis(ground, peer) for peer in peers.ON_REDIS},
        }
    )
    name = f"drain on PostgreSQL, {ground.options.number(ours.ON_POSTGRESQL.jobs):,} no-op jobs"
    mine = figures["longtake"]
    labels = [ground.label(peer) for peer in peers.ON_REDIS]
    return [compared(name, mine, "jobs/s", label, figures[label], "> 1") for label in labels]


def drain_on_redis(ground: Ground, peer: Contender) -> Callable[[], float]:
    def run() -> float:
        from redis import Redis

        with closing(Redis.from_url(ground.redis)) as client:
            client.flushall()
        return peer.drain(ground.redis, ground.options.number(peer.jobs))

    return run
