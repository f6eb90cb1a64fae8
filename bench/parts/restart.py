"""kill -9 in the middle of work on SQLite: how long until the next process has everything going again.

The clock runs from the start of the new process, interpreter and imports included, until every interrupted job was
entered anew, and the first of those that waited behind them as well.
"""

import asyncio
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from bench import children, ours
from bench.ground import Ground
from bench.moments import Moments, recording
from bench.rows import Row, limited

if TYPE_CHECKING:
    from longtake import JobKind

INTERRUPTED = 200
WAITING = 2_000
LIMIT_SECONDS = 60.0


def rows(ground: Ground) -> list[Row]:
    figures = ground.rounds({"restart": restart(ground)})
    name = f"kill -9 on SQLite to all {INTERRUPTED} interrupted jobs running again"
    return [limited(name, figures["restart"], "s", "<= 2 s")]


def restart(ground: Ground) -> Callable[[], float]:
    def run() -> float:
        with ground.database("sqlite") as url, tempfile.TemporaryDirectory(prefix="longtake-bench-") as folder:
            first, second = Path(folder) / "first", Path(folder) / "second"
            children.call("bench.ours:fill", url=url, jobs=INTERRUPTED + WAITING, kind="noop")
            with recording(first, INTERRUPTED + WAITING) as before, recording(second, INTERRUPTED + WAITING) as after:
                with children.running("bench.parts.restart:hang", url=url, moments=str(first)) as killed:
                    wait_until(lambda: before.entered() >= INTERRUPTED, killed)
                    killed.kill()
                interrupted = [number for number in range(INTERRUPTED + WAITING) if before.at(number)]
                start = time.monotonic()
                with children.running("bench.ours:work", url=url, moments=str(second), kind="noop") as restarted:
                    wait_until(after.is_complete, restarted)
                waiting = min(after.at(number) for number in range(len(interrupted), INTERRUPTED + WAITING))
                return max(waiting, *(after.at(number) for number in interrupted)) - start

    return run


def wait_until(is_so: Callable[[], bool], child: children.Child) -> None:
    deadline = time.monotonic() + LIMIT_SECONDS
    while not is_so():
        child.check()
        if time.monotonic() > deadline:
            raise children.ChildFailed(f"{child.target} did not get there within {LIMIT_SECONDS:g} s")
        time.sleep(0.01)


def hang(url: str, moments: str) -> None:
    """Work with handlers that never return, so that a full hand of jobs is interrupted."""

    async def main() -> None:
        from longtake import Worker

        async with ours.opened(url, [hanging_kind(Moments(Path(moments)))]) as engine:
            await Worker(engine).run()

    asyncio.run(main())


def hanging_kind(moments: Moments) -> "JobKind":
    from longtake import Done, Job, JobKind

    async def handler(job: Job) -> Done:
        moments.mark(job.args["n"])
        await asyncio.sleep(3_600)
        return Done()

    return JobKind("noop", handler)
