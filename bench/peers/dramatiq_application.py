"""The module that Dramatiq's worker command imports; addresses come by environment, as its processes are its own."""

import os
from pathlib import Path

import dramatiq
from dramatiq.brokers.redis import RedisBroker

from bench.moments import Moments

dramatiq.set_broker(RedisBroker(url=os.environ["BENCH_URL"]))  # type: ignore[no-untyped-call]

MOMENTS = Moments(Path(os.environ["BENCH_MOMENTS"])) if "BENCH_MOMENTS" in os.environ else None


@dramatiq.actor
def noop(number: int) -> None:
    assert MOMENTS is not None
    MOMENTS.mark(number)
