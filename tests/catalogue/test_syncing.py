"""The sync: whoever asks for one gets both walks, whatever is under way."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, cast

from longtake.capabilities.catalogue.store import create_posters
from longtake.capabilities.catalogue.sync import BUSY_SECONDS, Sync
from longtake.capabilities.catalogue.tables import POSTER, SEARCH, SYNC, SYNC_IDS, SYNC_POSTERS
from longtake.capabilities.catalogue.titles import request_sync
from longtake.engine.kinds import JobKind
from longtake.engine.outcomes import Done, Outcome
from tests.engine.stage import build, claim, done, finish, hire

if TYPE_CHECKING:
    from longtake import Database
    from longtake.adapters.providers.tmdb import Tmdb
    from longtake.engine.engine import Engine
    from longtake.engine.jobs import Job
    from tests.databases import StoppedClock


class Machine:
    """Runs syncs for real; walks only begin, and end when they are told to."""

    def __init__(self, database: Database, clock: StoppedClock) -> None:
        self._database = database
        self._clock = clock
        # Only a walk would ask TMDB, and none walks here.
        self._syncing = Sync(database, cast("Tmdb", None))
        kinds = [JobKind(SYNC, self._syncing.begin), JobKind(SYNC_POSTERS, done), JobKind(SYNC_IDS, done)]
        self.engine: Engine = build(database, *kinds)
        self._worker = database.run_blocking(hire)
        self._walking: list[Job] = []
        self.begun: Counter[str] = Counter()

    async def ask(self) -> None:
        await self._database.run(request_sync, self.engine)

    async def go_on(self) -> None:
        """Run what is due; walks are begun, and stay under way."""
        for _round in range(3):
            self._clock.advance(BUSY_SECONDS)
            for job in await self._database.run(claim, self.engine, self._worker):
                if job.kind == SYNC:
                    await self._end(job, await self._syncing.begin(job))
                else:
                    self._walking.append(job)
                    self.begun[job.kind] += 1

    async def end(self, kind: str) -> None:
        for job in [one for one in self._walking if one.kind == kind]:
            self._walking.remove(job)
            await self._end(job, Done())

    async def _end(self, job: Job, outcome: Outcome) -> None:
        assert await self._database.run(finish, self.engine, job, outcome)


async def test_a_sync_asked_for_while_another_waits_for_a_walk_is_whole(
    stopped_database: Database, clock: StoppedClock
) -> None:
    """What the first one has begun already may have passed what the second one is for."""
    machine = Machine(stopped_database, clock)
    await machine.ask()
    await machine.go_on()
    assert machine.begun == {SYNC_POSTERS: 1, SYNC_IDS: 1}
    await machine.end(SYNC_POSTERS)
    # Ids are looked up for long: the next sync begins posters at once, and ids after that.
    await machine.ask()
    await machine.go_on()
    assert machine.begun == {SYNC_POSTERS: 2, SYNC_IDS: 1}
    await machine.end(SYNC_POSTERS)
    await machine.ask()
    await machine.go_on()
    assert machine.begun == {SYNC_POSTERS: 3, SYNC_IDS: 1}
    await machine.end(SYNC_POSTERS)
    # Once is enough for all who have asked meanwhile.
    await machine.end(SYNC_IDS)
    await machine.go_on()
    assert machine.begun == {SYNC_POSTERS: 3, SYNC_IDS: 2}
    await machine.end(SYNC_IDS)
    await machine.go_on()
    assert machine.begun == {SYNC_POSTERS: 3, SYNC_IDS: 2}


async def test_a_syncs_posters_wait_for_everything_else(database: Database) -> None:
    """There may be thousands of them: where nothing limits a lane, ids would come behind all posters."""
    syncing = Sync(database, cast("Tmdb", None))
    kinds = [JobKind(SYNC_POSTERS, syncing.walk_posters), JobKind(POSTER, done), JobKind(SEARCH, done)]
    engine = build(database, *kinds)
    worker = database.run_blocking(hire)
    await database.run(create_posters, {f"{number:016x}": f"https://pictures.test/{number}" for number in range(3)}, ())
    await database.run(engine.enqueue, SYNC_POSTERS)
    [walk] = await database.run(claim, engine, worker)
    assert await database.run(finish, engine, walk, await syncing.walk_posters(walk))
    await database.run(engine.enqueue, SEARCH)
    claimed = await database.run(claim, engine, worker)
    assert [job.kind for job in claimed] == [SYNC_POSTERS, SEARCH, POSTER, POSTER, POSTER]
