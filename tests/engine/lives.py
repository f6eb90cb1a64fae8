"""What tests of living and dying workers share: a clock that can leap, and a look at the beats."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlalchemy import select

from longtake.clock import SystemClock
from longtake.engine.tables import workers
from tests.engine.stage import until_read

if TYPE_CHECKING:
    from longtake import Database, Transaction


class LeapingClock(SystemClock):
    """Real time, of which a test can let more pass at once."""

    def __init__(self) -> None:
        self.leap = 0.0

    def monotonic(self) -> float:
        return super().monotonic() + self.leap


def beats(tx: Transaction) -> dict[str, int]:
    return {row.id: row.beat for row in tx.execute(select(workers.c.id, workers.c.beat))}


async def until_beaten(database: Database) -> None:
    """Wait until every worker there is has beaten three times more."""
    first = await database.read(beats)

    def moved(seen: dict[str, int]) -> bool:
        return bool(seen) and all(beat >= first.get(worker, 0) + 3 for worker, beat in seen.items())

    await until_read(database, beats, moved)
