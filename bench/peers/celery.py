"""Celery's own worker command with its default pool (prefork, a process per core), results off."""

import os
import sys

APPLICATION = "bench.peers.celery_application"


def fill(url: str, jobs: int) -> None:
    os.environ["BENCH_URL"] = url
    from bench.peers.celery_application import application, noop

    with application.producer_or_acquire() as producer:
        for number in range(jobs):
            noop.apply_async((number,), producer=producer)


def work(url: str, moments: str) -> None:
    os.environ.update(BENCH_URL=url, BENCH_MOMENTS=moments)
    arguments = ["--app", APPLICATION, "worker", "--loglevel", "WARNING", "--without-gossip", "--without-mingle"]
    os.execv(sys.executable, [sys.executable, "-m", "celery", *arguments])
