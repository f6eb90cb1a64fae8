"""PostgreSQL goes away and comes back: F18, F19."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.wait import wait_for

if TYPE_CHECKING:
    from proofs.faults.lab import Lab
    from proofs.faults.servers import StopMode, StoppableServer


@pytest.mark.parametrize("mode", ["immediate", "fast"])
def test_a_restart_during_a_claim_loses_nothing(
    restarted_lab: Lab, stoppable_server: StoppableServer, mode: StopMode
) -> None:
    """F18: the database server restarts."""
    lab = restarted_lab
    ids = lab.enqueue(20)
    child = lab.start(hold="claim")
    lab.wait_for("holding", step="claim")
    stoppable_server.halt(mode)
    lab.let("go")
    stoppable_server.start()
    lab.drained()
    lab.check(ids)
    assert child.alive
    # The claim that was cut off never happened.
    assert {lab.job(job)["attempt"] for job in ids} == {1}
    assert {lab.job(job)["crashes"] for job in ids} == {0}


def test_a_restart_during_a_settlement_writes_each_effect_once(
    restarted_lab: Lab, stoppable_server: StoppableServer
) -> None:
    """F18: the database server restarts."""
    lab = restarted_lab
    ids = lab.enqueue(20)
    lab.start(hold="settle")
    lab.wait_for("holding", step="settle")
    stoppable_server.halt()
    lab.let("go")
    stoppable_server.start()
    lab.drained()
    lab.check(ids)
    assert {len(lab.evidence("start", job=job)) for job in ids} == {1}


def test_jobs_that_end_during_an_outage_are_settled_after_it(
    restarted_lab: Lab, stoppable_server: StoppableServer
) -> None:
    """F18: the database server restarts."""
    lab = restarted_lab
    ids = lab.enqueue(10, until="go")
    # The lease outlasts the absence, so nobody is taken for dead.
    child = lab.start(lease_seconds=30.0, constants=(("longtake.db.postgresql", "PATIENCE_SECONDS", 0.2),))
    lab.wait_for("start", count=10)
    stoppable_server.halt()
    lab.let("go")
    lab.wait_for("end", count=10)
    stoppable_server.start()
    lab.drained()
    lab.check(ids)
    assert child.alive
    assert {tuple(lab.attempts(job)) for job in ids} == {("done",)}


def test_repeated_restarts_under_load_lose_nothing(restarted_lab: Lab, stoppable_server: StoppableServer) -> None:
    """F18: the database server restarts."""
    lab = restarted_lab
    children = [lab.start(concurrency=10), lab.start(concurrency=10)]
    ids: list[str] = []
    for mode in ("immediate", "fast", "immediate"):
        ended = len(lab.evidence("end"))
        ids += lab.enqueue(150, seconds=0.01, snoozes=1)
        lab.wait_for("end", count=ended + 40)
        stoppable_server.halt(mode)
        stoppable_server.start()
    lab.drained()
    lab.check(ids)
    assert all(child.alive for child in children)


def test_a_rescue_continues_after_a_restart(restarted_lab: Lab, stoppable_server: StoppableServer) -> None:
    """F19: the database server restarts during a rescue."""
    lab = restarted_lab
    ids = lab.enqueue(5, until="go")
    dead = lab.start()
    lab.wait_for("start", count=5)
    rescuer = lab.start(hold="rescue", constants=(("longtake.db.postgresql", "PATIENCE_SECONDS", 0.1),))
    dead.kill()
    lab.wait_for("holding", step="rescue")
    # The worker is buried, its jobs are not yet free: what was begun is given up, and has to be begun again.
    stoppable_server.halt()
    lab.let("go")
    log = lab.folder / f"log-{rescuer.id}"
    wait_for(lambda: "action=rescue_the_dead" in log.read_text(), "the rescue is given up")
    stoppable_server.start()
    lab.wait_for("start", count=5, process=rescuer.id)
    lab.drained()
    lab.check(ids)
    assert {tuple(lab.attempts(job)) for job in ids} == {("crashed", "done")}


def test_a_rescuer_killed_during_a_rescue_is_rescued_itself(postgresql_lab: Lab) -> None:
    """F19: the database server restarts during a rescue."""
    lab = postgresql_lab
    ids = lab.enqueue(5, until="free")
    dead = lab.start()
    lab.wait_for("start", count=5)
    rescuer = lab.start(hold="rescue")
    dead.kill()
    lab.wait_for("holding", step="rescue")
    rescuer.kill()
    lab.let("free")
    lab.start()
    lab.drained()
    lab.check(ids)
    assert {tuple(lab.attempts(job)) for job in ids} == {("crashed", "done")}
    wait_for(lambda: len(lab.sql("SELECT id FROM workers")) == 1, "both dead workers are buried")
