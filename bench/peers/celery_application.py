"""The module that Celery's worker command imports; addresses come by environment, as its processes are its own."""

import os
from pathlib import Path

from celery import Celery

from bench.moments import Moments

application = Celery("bench", broker=os.environ["BENCH_URL"])
application.conf.task_ignore_result = True
application.conf.worker_hijack_root_logger = False

MOMENTS = Moments(Path(os.environ["BENCH_MOMENTS"])) if "BENCH_MOMENTS" in os.environ else None


@application.task
def noop(number: int) -> None:
    assert MOMENTS is not None
    MOMENTS.mark(number)
