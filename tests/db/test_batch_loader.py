"""Questions that are asked in the same moment are one question, and nobody is harmed by the others."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence
from typing import TYPE_CHECKING

import pytest

from longtake.batch_loader import BatchLoader
from tests.db.notes import add_note, read_notes

if TYPE_CHECKING:
    from longtake import Database, Transaction


class Looks:
    """Looks for notes, and counts how often; waits or fails when told."""

    def __init__(self) -> None:
        self.keys: list[list[int]] = []
        self.entered, self.go_on = threading.Event(), threading.Event()
        self.go_on.set()
        self.fails = False

    def __call__(self, tx: Transaction, keys: Sequence[int]) -> dict[int, str]:
        self.keys.append(list(keys))
        self.entered.set()
        assert self.go_on.wait(20)
        if self.fails:
            raise LookupError("no luck")
        return {value: f"note {value}" for value in read_notes(tx) if value in keys}


@pytest.fixture
def looks() -> Looks:
    return Looks()


@pytest.fixture
async def reads(noted: Database, looks: Looks) -> BatchLoader[int, str]:
    for value in range(5):
        await noted.run(add_note, value)
    return BatchLoader(lambda keys: noted.read(looks, keys))


async def test_who_asks_in_the_same_moment_is_answered_by_one_read(reads: BatchLoader[int, str], looks: Looks) -> None:
    answers = await asyncio.gather(*(reads.load(key) for key in (3, 0, 7, 3)))
    assert answers == ["note 3", "note 0", None, "note 3"]
    assert looks.keys == [[3, 0, 7]]
    assert await reads.load(1) == "note 1"
    assert looks.keys == [[3, 0, 7], [1]]


async def test_who_asks_while_others_are_being_answered_has_a_read_of_its_own(
    reads: BatchLoader[int, str], looks: Looks, noted: Database
) -> None:
    looks.go_on.clear()
    first = asyncio.create_task(reads.load(9))
    assert await asyncio.to_thread(looks.entered.wait, 20)
    await asyncio.to_thread(noted.run_blocking, add_note, 9)
    second = asyncio.create_task(reads.load(9))
    await asyncio.sleep(0)
    looks.go_on.set()
    await first
    assert await second == "note 9", "it sees what was written before it asked"
    assert looks.keys == [[9], [9]]


@pytest.mark.parametrize("cancelled", [0, 1])
async def test_one_who_is_cancelled_harms_no_other(reads: BatchLoader[int, str], looks: Looks, cancelled: int) -> None:
    looks.go_on.clear()
    tasks = [asyncio.create_task(reads.load(key)) for key in range(2)]
    assert await asyncio.to_thread(looks.entered.wait, 20)
    tasks[cancelled].cancel()
    await asyncio.wait([tasks[cancelled]])
    looks.go_on.set()
    assert tasks[cancelled].cancelled()
    other = 1 - cancelled
    assert await tasks[other] == f"note {other}"


async def test_nobody_who_waits_any_more_harms_nobody(reads: BatchLoader[int, str], looks: Looks) -> None:
    looks.fails = True
    tasks = [asyncio.create_task(reads.load(key)) for key in range(2)]
    await asyncio.sleep(0)
    for task in tasks:
        task.cancel()
    await asyncio.wait(tasks)
    looks.fails = False
    assert await reads.load(2) == "note 2"


async def test_an_error_reaches_all_who_asked_together_and_nobody_after_them(
    reads: BatchLoader[int, str], looks: Looks
) -> None:
    looks.fails = True
    answers = await asyncio.gather(*(reads.load(key) for key in range(3)), return_exceptions=True)
    assert [str(one) for one in answers] == ["no luck"] * 3
    looks.fails = False
    assert await reads.load(2) == "note 2"
