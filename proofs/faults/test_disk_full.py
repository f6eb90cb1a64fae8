"""No room on the disk: F22."""

from __future__ import annotations

import asyncio
import os
import resource
import shutil
import subprocess
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest
from sqlalchemy import insert
from structlog.testing import capture_logs

from longtake import Done, Engine, JobKind, Worker, open_database
from longtake.db.errors import DatabaseFull, DatabaseUnavailable
from proofs.faults.child_worker import effects
from tests.wait import PATIENCE_SECONDS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from longtake import Database, Job, Settlement, Transaction

#: A job's arguments, so that few jobs fill much.
BULK = {"bulk": "x" * 20_000}


class SmallDisk:
    """A disk of its own, on which there can be no room."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def fill(self, leave: int) -> None:
        """Leave only so many bytes free."""
        space = os.statvfs(self.folder)
        with (self.folder / "filler").open("ab") as filler:
            filler.write(b"\0" * max(space.f_bavail * space.f_frsize - leave, 0))

    def make_room(self) -> None:
        (self.folder / "filler").unlink()


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[SmallDisk]:
    folder = tmp_path / "disk"
    folder.mkdir()
    mount = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=8m", "tmpfs", folder], check=False, capture_output=True)
    if mount.returncode:
        pytest.skip("mounting a small disk needs rights that this process has not")
    yield SmallDisk(folder)
    subprocess.run(["umount", folder], check=True, timeout=PATIENCE_SECONDS)


async def _done(_job: Job) -> Done:
    return Done()


def _write_effects(tx: Transaction, _engine: Engine, settlements: Sequence[Settlement]) -> None:
    tx.execute(insert(effects), [{"job_id": one.job.id} for one in settlements])


def _sql(tx: Transaction, statement: str) -> list[tuple[Any, ...]]:
    return tx.sql(statement)


class Submissions:
    """Submits jobs, and keeps who was told what."""

    def __init__(self, database: Database) -> None:
        self.database = database
        self.engine = Engine(database, [JobKind("task", _done, _write_effects)])
        self.accepted: list[str] = []
        self.refused: list[Exception] = []

    async def prepare(self) -> None:
        await self.engine.start()
        await self.database.run(_sql, "CREATE TABLE effects (job_id text PRIMARY KEY, attempt int, process int)")

    async def submit_until_refused(self, together: int) -> None:
        """Submit many at a time, as concurrent requests do; they share transactions."""
        while not self.refused:
            assert len(self.accepted) < 5_000, "the disk never fills"
            run, enqueue = self.database.run, self.engine.enqueue
            answers = await asyncio.gather(
                *(run(enqueue, "task", BULK) for _ in range(together)), return_exceptions=True
            )
            self.accepted += [answer.id for answer in answers if not isinstance(answer, BaseException)]
            self.refused += [answer for answer in answers if isinstance(answer, Exception)]

    async def written(self) -> set[str]:
        return {row[0] for row in await self.database.read(_sql, "SELECT id FROM jobs")}

    async def drain(self, once_in_trouble: Callable[[], None] | None = None) -> None:
        """Let a worker do all that was accepted; each effect is there once."""
        worker = Worker(self.engine, poll_seconds=0.1)
        working = asyncio.create_task(worker.run())
        with capture_logs() as log:
            async with asyncio.timeout(PATIENCE_SECONDS):
                while await self.written():
                    await asyncio.sleep(0.05)
                    in_trouble = [line for line in log if line.get("code") == DatabaseFull.code]
                    if once_in_trouble is not None and len(in_trouble) > 2:
                        once_in_trouble()
                        once_in_trouble = None
        assert once_in_trouble is None
        worker.stop()
        await working
        done = await self.database.read(_sql, "SELECT job_id FROM effects ORDER BY job_id")
        assert [row[0] for row in done] == sorted(self.accepted)


@contextmanager
def opened(template: Path, folder: Path) -> Iterator[Database]:
    path = folder / "longtake.db"
    shutil.copyfile(template, path)
    database = open_database(f"sqlite:///{path}")
    try:
        yield database
    finally:
        database.close()


async def _fill_refuse_and_go_on(
    submissions: Submissions, fill: Callable[[], None], make_room: Callable[[], None], error: type[Exception]
) -> None:
    await submissions.prepare()
    fill()
    await submissions.submit_until_refused(together=20)
    assert {type(one) for one in submissions.refused} == {error}
    # Whoever was told yes is there, whoever was told no is not; and reading goes on.
    assert await submissions.written() == set(submissions.accepted)
    with pytest.raises(error):
        await submissions.database.run(submissions.engine.enqueue, "task", {"bulk": "x" * 60_000})

    make_room()
    accepted = await submissions.database.run(submissions.engine.enqueue, "task", BULK)
    submissions.accepted.append(accepted.id)
    assert await submissions.database.read(_sql, "PRAGMA integrity_check") == [("ok",)]
    await submissions.drain()


async def test_a_full_disk_refuses_submits_until_there_is_room(sqlite_template: Path, small_disk: SmallDisk) -> None:
    """F22: the disk is full."""
    with opened(sqlite_template, small_disk.folder) as database:
        submissions = Submissions(database)
        await _fill_refuse_and_go_on(
            submissions, lambda: small_disk.fill(leave=2_000_000), small_disk.make_room, DatabaseFull
        )
        assert "room" in submissions.refused[0].args[0]


async def test_a_file_that_may_not_grow_refuses_submits_until_it_may(sqlite_template: Path, tmp_path: Path) -> None:
    """F22: A quota, or a file size limit of the process: the system reports it as another error than a full disk."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)

    def fill() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (1_500_000, hard))

    def make_room() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))

    with opened(sqlite_template, tmp_path) as database:
        try:
            await _fill_refuse_and_go_on(Submissions(database), fill, make_room, DatabaseUnavailable)
        finally:
            make_room()


async def test_a_worker_on_a_full_disk_finishes_its_jobs_when_there_is_room(
    sqlite_template: Path, small_disk: SmallDisk, monkeypatch: pytest.MonkeyPatch
) -> None:
    """F22: the disk is full."""
    monkeypatch.setattr("longtake.engine.claimer.PAUSE_SECONDS", 0.05)
    with opened(sqlite_template, small_disk.folder) as database:
        submissions = Submissions(database)
        await submissions.prepare()
        small_disk.fill(leave=1_000_000)
        await submissions.submit_until_refused(together=1)
        small_disk.fill(leave=0)
        await submissions.drain(once_in_trouble=small_disk.make_room)
