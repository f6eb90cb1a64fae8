"""Old and new versions side by side (F12), and many schedulers (F13)."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from tests.wait import wait_for

if TYPE_CHECKING:
    from proofs.faults.lab import Lab

UNTOUCHED = {"state": "ready", "attempt": 0, "crashes": 0, "worker": None, "error": None}
BOTH = ("task", "novelty")


def declare(lab: Lab, kind: str) -> None:
    """Let the database know a kind, as a worker of the new version does when it starts."""
    columns = "name, lane, priority, max_attempts, paused"
    lab.sql(f"INSERT INTO job_kinds ({columns}) VALUES (?, 'default', 2, 50, false)", (kind,))


def test_an_old_version_leaves_unknown_kinds_alone(lab: Lab) -> None:
    """F12: an old and a new version side by side."""
    declare(lab, "novelty")
    novelties = lab.enqueue(5, kind="novelty")
    old = lab.start()
    known = lab.enqueue(5)
    wait_for(lambda: lab.live() == 5, "the known jobs have ended")
    assert [lab.job(job) for job in novelties] == [UNTOUCHED] * 5
    lab.check(known)

    if lab.is_sqlite:
        old.terminate()
        old.gone()
    lab.start(kinds=BOTH)
    lab.drained()
    lab.check([*known, *novelties])


def test_an_old_version_rescues_jobs_of_unknown_kinds(postgresql_lab: Lab) -> None:
    """F12: an old and a new version side by side."""
    lab = postgresql_lab
    new = lab.start(kinds=BOTH)
    novelties = lab.enqueue(2, kind="novelty", until="go")
    known = lab.enqueue(2, until="go")
    lab.wait_for("start", count=4)
    lab.start()
    new.kill()
    lab.wait_for("start", job=known[0], count=2)
    wait_for(lambda: {lab.job(job)["state"] for job in novelties} == {"ready"}, "the unknown jobs wait again")
    assert {lab.job(job)["crashes"] for job in novelties} == {1}

    lab.let("go")
    lab.start(kinds=BOTH)
    lab.drained()
    lab.check([*known, *novelties])


def test_an_old_version_never_ends_a_job_of_an_unknown_kind(postgresql_lab: Lab) -> None:
    """F12: an old and a new version side by side."""
    lab = postgresql_lab
    [killer] = lab.enqueue(kind="novelty", crashes=2, until="never")
    new = lab.start(kinds=BOTH)
    lab.wait_for("start", job=killer)
    old = lab.start()
    new.kill()
    [worker] = [line["worker"] for line in lab.evidence("ready", process=new.id)]
    wait_for(lambda: lab.sql("SELECT * FROM workers WHERE id = ?", (worker,)) == [], "the new one is buried")
    # The old one goes on with what it knows; only a version that knows the kind can tell its settle of the end.
    [known] = lab.enqueue()
    lab.wait_for("end", job=known, process=old.id)
    wait_for(lambda: lab.live() == 1, "the known job has ended")
    assert lab.job(killer)["state"] == "running"

    lab.start(kinds=BOTH)
    lab.wait_for("failed", job=killer)
    lab.drained()
    assert lab.job(killer)["error"]["code"] == "CRASHED"


def test_two_schedulers_fire_each_tick_once(postgresql_lab: Lab) -> None:
    """F13: two schedulers."""
    lab = postgresql_lab
    declare(lab, "task")
    for _ in range(2):
        lab.start(poll_seconds=0.02)
    [(now,)] = lab.sql("SELECT longtake_now()")
    assert isinstance(now, datetime)
    lab.sql("UPDATE test_clock SET frozen = ?", (now,))
    lab.sql(
        "INSERT INTO schedules (name, kind, every_seconds, paused, next_at)"
        " VALUES ('often', 'task', 60, false, longtake_now() + interval '60 seconds')"
    )
    for tick in range(1, 13):
        lab.sql("UPDATE test_clock SET frozen = ?", (now + timedelta(seconds=60 * tick),))
        lab.wait_for("end", count=tick)
        wait_for(lambda: lab.live() == 0, "the tick's job has ended")
    assert len(lab.evidence("start")) == 12
    assert lab.sql("SELECT count(*) FROM jobs_ended") == [(12,)]
    # Ticks that were missed are not made up for, and the next one is still to come.
    lab.sql("UPDATE test_clock SET frozen = ?", (now + timedelta(seconds=60 * 20),))
    lab.wait_for("end", count=13)
    wait_for(lambda: lab.live() == 0, "the late tick's job has ended")
    assert lab.sql("SELECT count(*) FROM jobs_ended") == [(13,)]
