"""The peers: one module each, with `fill(url, jobs)` and `work(url, moments)`, each run in a child process of its own.

Each is set up the way its documentation recommends for throughput, and otherwise as shipped. Slow ones get fewer jobs:
rates are what is compared, and none of them gets slower with a shorter queue.
"""

from dataclasses import replace

from bench.drain import Contender
from bench.peers import redis_state
from bench.settled import in_postgresql, in_redis, in_sqlite

PGQUEUER_EMPTY = in_postgresql("SELECT NOT EXISTS (SELECT FROM pgqueuer)")
PGQUEUER = Contender(
    "pgqueuer, batch 100",
    "bench.peers.pgqueuer",
    50_000,
    PGQUEUER_EMPTY,
    (("analyze", False),),
)
PGQUEUER_ANALYZED = replace(PGQUEUER, name="pgqueuer, batch 100, after ANALYZE", options=(("analyze", True),))
PROCRASTINATE = Contender(
    "procrastinate, concurrency 10",
    "bench.peers.procrastinate",
    3_000,
    in_postgresql("SELECT NOT EXISTS (SELECT FROM procrastinate_jobs WHERE status IN ('todo', 'doing'))"),
)
ON_POSTGRESQL = (PGQUEUER, PGQUEUER_ANALYZED, PROCRASTINATE)

# Huey takes a task out of its table before running it, and stores nothing for a result of None.
HUEY_EMPTY = in_sqlite("SELECT NOT EXISTS (SELECT 1 FROM task)")
HUEY_FAST = Contender("huey, fsync off", "bench.peers.huey", 20_000, HUEY_EMPTY, (("fsync", False),))
HUEY_SAFE = Contender("huey, fsync on", "bench.peers.huey", 10_000, HUEY_EMPTY, (("fsync", True),))

TASKIQ = Contender("taskiq, stream", "bench.peers.taskiq", 10_000, in_redis(redis_state.taskiq_is_over))
DRAMATIQ = Contender("dramatiq", "bench.peers.dramatiq", 10_000, in_redis(redis_state.dramatiq_is_over))
ARQ = Contender("arq", "bench.peers.arq", 5_000, in_redis(redis_state.arq_is_over))
CELERY = Contender("celery, prefork", "bench.peers.celery", 5_000, in_redis(redis_state.celery_is_over))
ON_REDIS = (TASKIQ, DRAMATIQ, ARQ, CELERY)
