"""The engine alone, without the service: `python examples/engine_alone.py sqlite:///jobs.db`.

Kill it in the middle and start it again: the countdown goes on where it was.
"""

import asyncio
import sys
from collections.abc import Sequence

from longtake import (
    Done,
    Engine,
    Job,
    JobKind,
    Outcome,
    Settlement,
    Snooze,
    Transaction,
    Worker,
    migrate_up,
    open_database,
)


async def count_down(job: Job) -> Outcome:
    """Count one step. Between two steps the job is a row with a due time: no thread, no coroutine, no memory."""
    left = 3 if job.memo is None else job.memo
    print(left, flush=True)
    return Done() if left == 0 else Snooze(0.3, memo=left - 1)


async def main(url: str) -> None:
    """Enqueue the job, unless an earlier run left it, and work until it has ended."""
    loop = asyncio.get_running_loop()

    def stop() -> None:
        loop.call_soon_threadsafe(worker.stop)

    def settle(tx: Transaction, _engine: Engine, settlements: Sequence[Settlement]) -> None:
        """Write effects here, in the transaction that ends the job. This one only stops the worker afterwards."""
        if any(isinstance(one.outcome, Done) for one in settlements):
            tx.after_commit(stop)

    migrate_up(url)
    database = open_database(url)
    engine = Engine(database, kinds=[JobKind("countdown", count_down, settle=settle)])
    await engine.start()
    await database.run(engine.enqueue, "countdown", key="the only one")
    worker = Worker(engine)
    await worker.run()
    database.close()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
