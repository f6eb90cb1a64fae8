"""Workers killed at random points, again and again, under load."""

from __future__ import annotations

import random
import time
from typing import TYPE_CHECKING

import pytest

from longtake import Lane
from proofs.faults.runs import crowd, runs

if TYPE_CHECKING:
    from proofs.faults.lab import Child, Lab

KILLS = 8
KINDS = ("task", "narrow")
LANES = (Lane("narrow", max_running=3),)


def _start(lab: Lab) -> Child:
    return lab.start(kinds=KINDS, lanes=LANES, concurrency=20, lease_seconds=1.2, heartbeat_seconds=0.3)


def _stream(lab: Lab, random_source: random.Random) -> list[str]:
    """Add work of every sort: quick, slow, snoozing, failing at first, and in a narrow lane."""
    return [
        *lab.enqueue(20, seconds=random_source.uniform(0, 0.05)),
        *lab.enqueue(5, seconds=0.3),
        *lab.enqueue(10, snoozes=2),
        *lab.enqueue(10, retries=1),
        *lab.enqueue(6, kind="narrow", lane="narrow", seconds=0.05),
    ]


def test_killed_at_random_points_nothing_is_lost_or_done_twice(lab: Lab, seed: int) -> None:
    random_source = random.Random(seed)
    children = [_start(lab) for _ in range(1 if lab.is_sqlite else 2)]
    ids: list[str] = []
    parents: set[str] = set()
    for _ in range(KILLS):
        ids += _stream(lab, random_source)
        followed_by_one = lab.enqueue(10, then=[{"kind": "task", "args": {"seconds": 0.01}}])
        parents.update(followed_by_one)
        ids += followed_by_one
        time.sleep(random_source.uniform(0.05, 0.7))  # any moment will do
        children.pop(0).kill()
        children.append(_start(lab))
    lab.drained()
    # A job that runs alone when its worker is killed for the third time is blamed; chance can do that, too.
    quarantined = lab.quarantined()
    lab.check(ids, quarantined=quarantined)
    assert len(quarantined) <= KILLS - 2
    done = {str(row[0]) for row in lab.sql("SELECT id FROM jobs_ended WHERE state = 'done'")}
    followed = lab.sql("SELECT count(*) FROM jobs_ended WHERE subject IS NOT NULL")
    assert followed == [(len(parents & done),)]
    narrow = [run for run in runs(lab.evidence(), lab.deaths()) if run.lane == "narrow"]
    assert len(crowd(narrow)) <= 3


@pytest.mark.parametrize("step", ["claim", "settle", "rescue"])
def test_killed_inside_each_transaction_in_turn_nothing_is_lost_or_done_twice(lab: Lab, step: str) -> None:
    """The three transactions a worker makes, each cut off when all its changes are made and none is committed."""
    ids = lab.enqueue(10, then=[{"kind": "task"}])
    if step == "rescue":
        first = lab.start()
        [interrupted] = lab.enqueue(until="go")
        lab.wait_for("start", job=interrupted)
        first.kill()
    child = lab.start(hold=step)
    lab.wait_for("holding", step=step)
    child.kill()
    lab.let("go")
    lab.start()
    lab.drained()
    lab.check(ids)
    assert lab.sql("SELECT count(*) FROM jobs_ended WHERE kind = 'task'")[0][0] == 20 + (step == "rescue")
