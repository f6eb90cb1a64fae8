"""The connection is lost during COMMIT: PostgreSQL is asked what became of it before anything is run twice."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from longtake import Database, open_database
from longtake.db import postgresql
from longtake.db.errors import DatabaseUnavailable
from tests.db.notes import add_note, make_notes, read_notes
from tests.db.proxy import Cut, CuttingProxy

if TYPE_CHECKING:
    from collections.abc import Iterator

    from longtake import Transaction


@pytest.fixture
def proxy(postgresql_url: str) -> Iterator[CuttingProxy]:
    proxy = CuttingProxy(postgresql_url)
    yield proxy
    proxy.close()


@pytest.fixture
def behind_proxy(proxy: CuttingProxy) -> Iterator[Database]:
    opened = open_database(proxy.url)
    opened.run_blocking(make_notes)
    yield opened
    opened.close()


class Writer:
    """Counts how often it was run, and how often its commit was told."""

    def __init__(self) -> None:
        self.runs = 0
        self.told = 0

    def write(self, tx: Transaction) -> str:
        self.runs += 1
        tx.after_commit(self._tell)
        add_note(tx, self.runs)
        return f"run {self.runs}"

    def _tell(self) -> None:
        self.told += 1


@pytest.mark.parametrize("cut", [Cut.AFTER, Cut.LATE])
@pytest.mark.parametrize("blocking", [True, False])
async def test_a_commit_that_was_applied_is_not_repeated(
    behind_proxy: Database, proxy: CuttingProxy, cut: Cut, blocking: bool
) -> None:
    writer = Writer()
    proxy.cut = cut
    answer = behind_proxy.run_blocking(writer.write) if blocking else await behind_proxy.run(writer.write)
    assert proxy.cut is None
    assert proxy.asked.is_set()
    assert answer == "run 1"
    assert (writer.runs, writer.told) == (1, 1)
    assert await behind_proxy.read(read_notes) == [1]


async def test_a_commit_that_never_arrived_is_run_again(behind_proxy: Database, proxy: CuttingProxy) -> None:
    writer = Writer()
    proxy.cut = Cut.BEFORE
    assert await behind_proxy.run(writer.write) == "run 2"
    assert proxy.asked.is_set()
    assert (writer.runs, writer.told) == (2, 1)
    assert await behind_proxy.read(read_notes) == [2]


async def test_a_reader_cut_at_its_end_is_simply_run_again(behind_proxy: Database, proxy: CuttingProxy) -> None:
    await behind_proxy.run(add_note, 1)
    proxy.cut = Cut.BEFORE
    assert await behind_proxy.read(read_notes) == [1]
    assert not proxy.asked.is_set()


async def test_when_nobody_can_be_asked_the_caller_is_not_told_success(
    behind_proxy: Database, proxy: CuttingProxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    def write_and_cut_everything(tx: Transaction) -> None:
        add_note(tx, 1)
        proxy.close()

    monkeypatch.setattr(postgresql, "PATIENCE_SECONDS", 0.2)
    with pytest.raises(DatabaseUnavailable):
        await behind_proxy.run(write_and_cut_everything)
