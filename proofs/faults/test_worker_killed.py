"""Workers that die: F1, F2, F5, F9."""

from __future__ import annotations

import inspect
import itertools
from typing import TYPE_CHECKING

from longtake import Lane, Worker
from longtake.engine.leases import Witness, WorkerState
from longtake.engine.maintenance import RESCUES_PER_LEASE
from proofs.faults.runs import runs, starts_too_close
from tests.databases import StoppedClock

if TYPE_CHECKING:
    from proofs.faults.lab import Lab

UNTOUCHED = {"state": "ready", "attempt": 0, "crashes": 0, "worker": None, "error": None}


def test_a_kill_before_the_claim_commits_leaves_the_job_queued(lab: Lab) -> None:
    """F1: killed before the claim commits."""
    [job] = lab.enqueue()
    child = lab.start(hold="claim")
    lab.wait_for("holding", step="claim")
    child.kill()

    assert lab.job(job) == UNTOUCHED
    assert lab.evidence("start") == []

    lab.start()
    lab.drained()
    lab.check([job])
    assert lab.job(job)["attempt"] == 1


def test_a_job_of_a_worker_killed_after_the_claim_is_rescued(lab: Lab) -> None:
    """F2: killed after the claim."""
    ids = lab.enqueue(5, until="go")
    child = lab.start()
    lab.wait_for("start", count=5)
    if not lab.is_sqlite:
        lab.start()
    child.kill()
    assert {lab.job(job)["state"] for job in ids} == {"running"}

    if lab.is_sqlite:
        lab.start()
    lab.wait_for("start", count=10)
    lab.let("go")
    lab.drained()
    lab.check(ids)
    assert {(lab.job(job)["attempt"], lab.job(job)["crashes"]) for job in ids} == {(2, 1)}
    assert {tuple(lab.attempts(job)) for job in ids} == {("crashed", "done")}


def test_the_default_settings_rescue_within_45_seconds() -> None:
    """F2: killed after the claim."""
    shipped = inspect.signature(Worker).parameters
    lease, beat = shipped["lease_seconds"].default, shipped["heartbeat_seconds"].default
    look = lease / RESCUES_PER_LEASE
    assert lease == 30
    assert beat == 10
    assert max(_rescue_delay(lease, look, phase * look / 20) for phase in range(20)) <= 45


def _rescue_delay(lease: float, look: float, phase: float) -> float:
    """Return how long after its death a worker is known to be dead, if it died right after a beat.

    The rescuer looks every ``look`` seconds, so far out of step with the death as the phase says.
    """
    clock = StoppedClock()
    witness = Witness(clock, lease, None)
    clock.advance(phase)
    for looks in itertools.count():
        age = phase + looks * look
        seen = [
            WorkerState("dead", 7, None, lease - age, lease),
            WorkerState("rescuer", looks, None, lease - 10, lease),
        ]
        if witness.dead(seen, "rescuer"):
            return age
        clock.advance(look)
    raise AssertionError


def test_a_kill_between_the_result_and_its_commit_writes_nothing(lab: Lab) -> None:
    """F5: killed between the result and its settlement."""
    [job] = lab.enqueue()
    child = lab.start(hold="settle")
    lab.wait_for("holding", step="settle")
    child.kill()

    assert lab.job(job)["state"] == "running"
    assert lab.sql("SELECT * FROM effects") == []

    lab.start()
    lab.drained()
    lab.check([job])
    assert lab.attempts(job) == ["crashed", "done"]


def test_a_job_that_kills_its_worker_three_times_is_quarantined_and_the_others_run(lab: Lab) -> None:
    """F9: a job that kills its worker three times."""
    # First in line: when it runs alone, the others are waiting for that in the same worker.
    [killer] = lab.enqueue(seconds=0.2, kill=True)
    innocent = lab.enqueue(4, seconds=0.4)
    for _death in range(3):
        lab.start(lease_seconds=1.2, heartbeat_seconds=0.3).gone()

    lab.start()
    lab.wait_for("failed", job=killer)
    lab.drained()
    lab.check([*innocent, killer], quarantined=(killer,))
    assert len(lab.evidence("start", job=killer)) == 3
    ended = lab.job(killer)
    assert (ended["state"], ended["crashes"], ended["error"]["code"]) == ("failed", 2, "CRASHED")
    assert lab.attempts(killer) == ["crashed"] * 3
    assert lab.sql("SELECT subject FROM events WHERE type = 'job.quarantined'") == [(killer,)]
    # They were there when the worker died, twice; none of them was blamed for the third.
    assert {lab.job(job)["crashes"] for job in innocent} <= {1, 2}


def test_a_job_runs_alone_after_two_crashes(lab: Lab) -> None:
    """F9: a job that kills its worker three times."""
    lab.start(kinds=("task", "paced"), lanes=(Lane("paced", rate=(100, 1.0)),))
    # These are claimed ahead, each for its own time: some will be due while a suspect runs.
    paced = lab.enqueue(120, kind="paced", lane="paced")
    lab.wait_for("start", count=4)
    suspects = lab.enqueue(3, crashes=2, seconds=0.2)
    lab.wait_for("start", job=suspects[0])
    others = lab.enqueue(5, seconds=0.1)
    lab.drained()
    lab.check([*suspects, *others, *paced])

    running: set[str] = set()
    for line in lab.evidence():
        if line["what"] == "start":
            running.add(line["job"])
            assert len(running) == 1 or not running & set(suspects)
        elif line["what"] == "end":
            running.discard(line["job"])


def test_a_job_that_waited_to_run_alone_keeps_the_spacing_of_its_lane(lab: Lab) -> None:
    """F9: a job that kills its worker three times."""
    lab.start(kinds=("task", "spaced"), lanes=(Lane("spaced", spacing=0.3),))
    [beside] = lab.enqueue(seconds=0.5)
    lab.wait_for("start", job=beside)
    suspects = lab.enqueue(2, kind="spaced", lane="spaced", crashes=2)
    others = lab.enqueue(3, kind="spaced", lane="spaced")
    lab.drained()
    lab.check([beside, *suspects, *others])
    spaced = [run for run in runs(lab.evidence(), {}) if run.lane == "spaced"]
    assert len(spaced) == 5
    assert starts_too_close(spaced, 0.3) == []


def test_sqlite_killed_goes_on_at_once_with_interrupted_jobs(sqlite_lab: Lab) -> None:
    interrupted = sqlite_lab.enqueue(20, until="go")
    child = sqlite_lab.start(lease_seconds=3600.0, heartbeat_seconds=10.0)
    sqlite_lab.wait_for("start", count=20)
    waiting = sqlite_lab.enqueue(20)
    child.kill()
    sqlite_lab.let("go")

    # The lease of the killed one outlasts every patience: it is not what is waited for.
    sqlite_lab.start(lease_seconds=3600.0, heartbeat_seconds=10.0)
    sqlite_lab.drained()
    sqlite_lab.check([*interrupted, *waiting])


def test_a_killed_worker_leaves_jobs_of_others_alone(postgresql_lab: Lab) -> None:
    lab = postgresql_lab
    survivor = lab.start(concurrency=1)
    [kept] = lab.enqueue(until="go")
    lab.wait_for("start", job=kept, process=survivor.id)
    victim = lab.start(concurrency=1)
    [lost] = lab.enqueue(until="go")
    lab.wait_for("start", job=lost, process=victim.id)
    victim.kill()
    lab.start(concurrency=1)
    lab.wait_for("start", job=lost, count=2)
    lab.let("go")
    lab.drained()
    lab.check([kept, lost])
    assert lab.attempts(kept) == ["done"]
