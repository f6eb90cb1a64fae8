"""The module that taskiq's worker command imports; addresses come by environment, as its processes are its own."""

import os
from pathlib import Path

from taskiq_redis import RedisStreamBroker

from bench.moments import Moments

broker = RedisStreamBroker(url=os.environ["BENCH_URL"])

MOMENTS = Moments(Path(os.environ["BENCH_MOMENTS"])) if "BENCH_MOMENTS" in os.environ else None


@broker.task
async def noop(number: int) -> None:
    assert MOMENTS is not None
    MOMENTS.mark(number)
