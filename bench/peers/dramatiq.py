"""Dramatiq's own worker command with its defaults: a process per core, eight threads in each."""

import os
import sys

APPLICATION = "bench.peers.dramatiq_application"


def fill(url: str, jobs: int) -> None:
    os.environ["BENCH_URL"] = url
    from bench.peers.dramatiq_application import noop

    for number in range(jobs):
        noop.send(number)


def work(url: str, moments: str) -> None:
    os.environ.update(BENCH_URL=url, BENCH_MOMENTS=moments)
    os.execv(sys.executable, [sys.executable, "-m", "dramatiq", APPLICATION])
