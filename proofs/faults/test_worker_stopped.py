"""Workers that are asked to stop: F7, F8."""

from __future__ import annotations

import signal
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from proofs.faults.lab import Lab
    from proofs.faults.servers import StoppableServer

UNTOUCHED = {"state": "ready", "attempt": 0, "crashes": 0, "worker": None, "error": None}
#: Through these a worker that is stopping waits for a database that is away.
HURRIED = (
    ("longtake.db.postgresql", "PATIENCE_SECONDS", 0.3),
    ("longtake.engine.worker", "FLUSH_SECONDS", 0.5),
)


def test_sigterm_lets_jobs_finish_and_starts_no_new_ones(lab: Lab) -> None:
    """F7: SIGTERM."""
    child = lab.start()
    running = lab.enqueue(5, until="go")
    lab.wait_for("start", count=5)
    child.terminate()
    lab.wait_for("stopping")
    waiting = lab.enqueue(5)
    lab.let("go")
    assert child.gone() == 0

    assert len(lab.evidence("stopped in order")) == 1
    assert {lab.job(job)["state"] for job in running} == {"done"}
    assert [lab.job(job) for job in waiting] == [UNTOUCHED] * 5
    assert lab.sql("SELECT * FROM workers") == []

    lab.start()
    lab.drained()
    lab.check([*running, *waiting])


def test_sigterm_gives_jobs_back_unspent_that_do_not_finish_within_the_grace(lab: Lab) -> None:
    """F7: SIGTERM."""
    child = lab.start(stop_grace_seconds=0.5)
    ids = lab.enqueue(5, until="go")
    lab.wait_for("start", count=5)
    asked_at = time.monotonic()
    child.terminate()
    assert child.gone() == 0
    # They wait for a word that has not been given: it did not wait for them.
    assert time.monotonic() - asked_at >= 0.5

    assert [lab.job(job) for job in ids] == [UNTOUCHED] * 5
    assert [lab.attempts(job) for job in ids] == [[]] * 5
    assert len(lab.evidence("stopped")) == 5

    lab.let("go")
    lab.start()
    lab.drained()
    lab.check(ids)
    assert {lab.job(job)["attempt"] for job in ids} == {1}


def test_sigterm_ends_a_worker_without_its_database(restarted_lab: Lab, stoppable_server: StoppableServer) -> None:
    """F7: SIGTERM."""
    lab = restarted_lab
    child = lab.start(stop_grace_seconds=0.5, constants=HURRIED)
    ids = lab.enqueue(3, until="go")
    lab.wait_for("start", count=3)
    stoppable_server.halt()
    child.terminate()
    child.gone()

    stoppable_server.start()
    lab.let("go")
    lab.start()
    lab.drained()
    lab.check(ids)


def test_a_second_sigterm_kills_and_the_jobs_are_rescued(lab: Lab) -> None:
    """F8: a second SIGTERM."""
    child = lab.start(stop_grace_seconds=60.0)
    ids = lab.enqueue(3, until="go")
    lab.wait_for("start", count=3)
    child.terminate()
    lab.wait_for("stopping")
    assert child.alive, "it waits for its jobs"
    child.terminate()
    assert child.gone() == -signal.SIGTERM
    assert {lab.job(job)["state"] for job in ids} == {"running"}

    lab.let("go")
    lab.start()
    lab.drained()
    lab.check(ids)
    assert {tuple(lab.attempts(job)) for job in ids} == {("crashed", "done")}
