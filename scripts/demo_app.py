"""What `./dev demo` runs: videos from a pretended slow provider, and a poster for each.

``demo.video`` asks the provider, looks again a few times (each time a snooze: no attempt, no memory), and is settled
into a table in the transaction that ends it. ``demo.poster`` follows, in a lane that lets one start every 0.15 s.
"""

import asyncio
from collections.abc import Sequence
from pathlib import Path

from longtake import Done, Job, JobKind, JobRequest, Lane, Outcome, Settlement, Snooze, Transaction
from longtake.app import Application

LOOKS = 3
CALL_SECONDS = 0.25
SNOOZE_SECONDS = 0.2
POSTER_SPACING = 0.15

# Without a unique key on purpose: an effect that happened twice would be seen.
TABLE = "CREATE TABLE IF NOT EXISTS demo_results (kind TEXT NOT NULL, number INTEGER NOT NULL)"


def register(application: Application) -> None:
    """Declare the two kinds and the lane; make the table their results go to."""
    provider = Provider(application.settings.data_dir / "provider-calls.txt")
    application.database.run_blocking(_make_table)
    application.add(
        kinds=[
            JobKind("demo.video", provider.follow, settle=settle),
            JobKind("demo.poster", provider.draw, settle=settle, lane="posters"),
        ],
        lanes=[Lane("posters", spacing=POSTER_SPACING)],
    )


class Provider:
    """Pretends to be a service elsewhere: slow to answer, and unaware of what becomes of its answers."""

    def __init__(self, calls: Path) -> None:
        self._calls = calls

    async def follow(self, job: Job) -> Outcome:
        """Ask how far the video is; it is ready at the last look."""
        await self._call(f"video {job.args['number']}")
        looks = (job.memo or 0) + 1
        if looks < LOOKS:
            # Not all at once, so that there is something to see.
            return Snooze(SNOOZE_SECONDS * (1 + job.args["number"] % 5), memo=looks)
        return Done(then=[JobRequest("demo.poster", job.args)])

    async def draw(self, job: Job) -> Outcome:
        """Have a poster drawn."""
        await self._call(f"poster {job.args['number']}")
        return Done()

    async def _call(self, what: str) -> None:
        with self._calls.open("a", encoding="utf-8") as file:
            file.write(what + "\n")
        await asyncio.sleep(CALL_SECONDS)


def settle(tx: Transaction, settlements: Sequence[Settlement]) -> None:
    """Write the results of the jobs that end here, in the very transaction that ends them."""
    for settlement in settlements:
        if isinstance(settlement.outcome, Done):
            tx.sql(
                "INSERT INTO demo_results (kind, number) VALUES (?, ?)",
                (settlement.job.kind, settlement.job.args["number"]),
            )


def _make_table(tx: Transaction) -> None:
    tx.sql(TABLE)
