"""Anything in any order, on real databases: nothing is lost, nothing runs twice, every effect is there once.

``STATE_MACHINE_EXAMPLES=2000`` makes a longer run; ``STATE_MACHINE_STEPS`` makes each example longer.
"""

from __future__ import annotations

import os
import sys
from datetime import timedelta
from typing import TYPE_CHECKING

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import invariant, precondition, rule, run_state_machine_as_test

from longtake import Cancelled, Database, Done, Fail, Job, JobRequest, Outcome, Retry, Snooze
from longtake.engine.control import cancel, request_cancel
from longtake.engine.leases import mark_alone
from longtake.engine.queue import QueueName
from tests.engine.machine import CHOICE, KINDS, WorkersAndTime, everything
from tests.engine.model import NARROW_MOST
from tests.engine.stage import claim, finish
from tests.thoroughness import tries

if TYPE_CHECKING:
    from tests.databases import StoppedClock

OUTCOMES = st.sampled_from(["done", "follow", "snooze", "wait", "chunk", "retry", "fail", "cancelled"])


class EngineMachine(WorkersAndTime):
    """What can happen to jobs, and what must hold after each step."""

    @rule(kind=st.sampled_from(KINDS), delay=st.sampled_from([0.0, 0.0, 7.0]))
    def enqueue(self, kind: str, delay: float) -> None:
        job = self.run(lambda tx: self.engine.enqueue(tx, kind, delay=delay))
        assert job.created
        self.learn(job.id, kind, delay=delay)

    @rule(kind=st.sampled_from(KINDS), key=st.sampled_from("ab"))
    def enqueue_with_a_key(self, kind: str, key: str) -> None:
        twin = self.model.with_key(kind, key)
        job = self.run(lambda tx: self.engine.enqueue(tx, kind, key=key))
        assert job.created == (twin is None)
        if twin is None:
            self.learn(job.id, kind, key)
        else:
            assert job.id == twin.id

    @precondition(lambda self: self.alive)
    @rule(choice=CHOICE, wanted=st.integers(1, 3))
    def claim_free(self, choice: int, wanted: int) -> None:
        worker = list(self.alive)[choice % len(self.alive)]
        due = self.model.due("free", self.now)
        claimed = self.run(claim, self.engine, worker, wanted)
        assert {job.id for job in claimed} <= due
        assert len(claimed) == min(wanted, len(due))
        self.take(worker, claimed)

    @precondition(lambda self: self.alive)
    @rule(choice=CHOICE, lane=st.sampled_from(["narrow", "timed"]), wanted=st.integers(1, 3))
    def claim_limited(self, choice: int, lane: str, wanted: int) -> None:
        worker = list(self.alive)[choice % len(self.alive)]
        due, running = self.model.due(lane, self.now), self.model.running(lane)
        found = self.run(self.engine.claim_lane, lane, [QueueName(lane, lane, 2)], worker, wanted)
        assert {job.id for job in found.jobs} <= due
        if lane == "narrow":
            assert len(found.jobs) == min(wanted, len(due), NARROW_MOST - running)
        else:
            self.model.starts += [self.clock.monotonic() + start for start in found.starts]
        self.take(worker, found.jobs)

    @precondition(lambda self: self.held())
    @rule(choice=CHOICE, name=OUTCOMES)
    def finish(self, choice: int, name: str) -> None:
        held = self.held()
        worker, job = held[choice % len(held)]
        self.alive[worker].remove(job)
        self.finish_as(worker, job, name)

    @precondition(lambda self: self.old)
    @rule(choice=CHOICE, name=OUTCOMES)
    def finish_again_or_too_late(self, choice: int, name: str) -> None:
        """Any run there ever was says how it ended; only one that has its lease still is heard."""
        self.finish_as(self.rescuer, self.old[choice % len(self.old)], name)

    def finish_as(self, worker: str, job: Job, name: str) -> None:
        model = self.model.jobs[job.id]
        ours = model.token == job.lease_token
        outcome = self.outcome(name, model.runs if ours else -1)
        assert self.run(finish, self.engine, job, outcome, worker) == ours
        if ours:
            self.model.finish(model, outcome, self.now)
            if name == "follow":
                [new] = {row.id for row in self.run(everything)[0]} - set(self.model.jobs)
                self.learn(new, "free")

    @staticmethod
    def outcome(name: str, number: int) -> Outcome:
        outcomes: dict[str, Outcome] = {
            "done": Done(data=number),
            "follow": Done(data=number, then=[JobRequest("free")]),
            "snooze": Snooze(0, data=number),
            "wait": Snooze(60, data=number),
            "chunk": Snooze(0, data=number, progress=True),
            "retry": Retry("AGAIN", "later", data=number),
            "fail": Fail("BROKEN", "for good", data=number),
            "cancelled": Cancelled(data=number),
        }
        return outcomes[name]

    @precondition(lambda self: any(job.live for job in self.model.jobs.values()))
    @rule(choice=CHOICE, by_operator=st.booleans())
    def cancel(self, choice: int, by_operator: bool) -> None:
        job = self.pick_live(choice)
        if by_operator and job.state == "ready":
            assert self.run(request_cancel, self.engine, job.id) == "cancelled"
            self.model.cancel(job, settled=True)
        else:
            assert self.run(cancel, job.id)
            self.model.cancel(job, settled=False)

    @precondition(lambda self: self.held())
    @rule(choice=CHOICE)
    def run_alone(self, choice: int) -> None:
        held = self.held()
        _worker, job = held[choice % len(held)]
        model = self.model.jobs[job.id]
        assert self.run(mark_alone, job) == (model.token == job.lease_token)
        model.alone = model.alone or model.token == job.lease_token

    # -- what always holds ---------------------------------------------------------------------------------------

    @invariant()
    def the_database_is_as_it_should_be(self) -> None:
        live, ended, attempts, written, told = self.run(everything)
        live_ids, ended_ids = {row.id for row in live}, {row.id for row in ended}
        assert not live_ids & ended_ids
        assert live_ids | ended_ids == set(self.model.jobs)
        for row in [*live, *ended]:
            job = self.model.jobs[row.id]
            assert (row.state, row.attempt, row.crashes, row.snoozes) == (
                job.state, job.attempt, job.crashes, job.snoozes,
            )  # fmt: skip
        for row in live:
            job = self.model.jobs[row.id]
            assert (row.lease_token, row.worker, row.due_at, row.alone) == (job.token, job.worker, job.due, job.alone)
        assert written == sorted(self.model.effects)
        timelines: dict[str, list[tuple[int, str]]] = {job_id: [] for job_id in self.model.jobs}
        for row in attempts:
            timelines[row.job_id].append((row.attempt, row.outcome))
        assert {job: sorted(one) for job, one in timelines.items()} == {
            job.id: sorted(job.timeline) for job in self.model.jobs.values()
        }
        before_ended, before_attempts, before_told = self.seen
        assert before_ended <= ended_ids
        assert (before_attempts, before_told) <= (len(attempts), told)
        self.seen = (ended_ids, len(attempts), told)

    @invariant()
    def no_limit_is_exceeded(self) -> None:
        assert self.model.running("narrow") <= NARROW_MOST
        self.model.check_starts()

    @invariant()
    def no_job_has_two_living_runs(self) -> None:
        leases = [job.id for _worker, job in self.held() if self.model.jobs[job.id].token == job.lease_token]
        assert len(leases) == len(set(leases))

    def teardown(self) -> None:
        """Whatever happened: given time and a worker, every job comes to its end."""
        if sys.exc_info()[0] is not None:
            return
        # A clock that was set back makes what is due wait; it is set right at last.
        late = max((job.due - self.now for job in self.model.jobs.values()), default=timedelta()).total_seconds()
        self.jump(max(late, 3600.0))
        self.expire()
        self.alive.setdefault(self.rescuer, [])
        mine = list(self.alive).index(self.rescuer)
        for _ in range(60):
            if not any(job.live for job in self.model.jobs.values()):
                return
            self.claim_free(mine, 100)
            for lane in ("narrow", "timed"):
                self.claim_limited(mine, lane, 100)
            for worker, job in self.held():
                self.alive[worker].remove(job)
                self.finish_as(worker, job, "done")
            self.advance(12.0)
        raise AssertionError([job for job in self.model.jobs.values() if job.live])


def test_anything_in_any_order(stopped_database: Database, clock: StoppedClock) -> None:
    machine_settings = settings(
        max_examples=int(os.environ.get("STATE_MACHINE_EXAMPLES", tries(15, 40))),
        stateful_step_count=int(os.environ.get("STATE_MACHINE_STEPS", "30")),
        suppress_health_check=list(HealthCheck),
    )

    class Machine(EngineMachine):
        def __init__(self) -> None:
            super().__init__(stopped_database, clock)

    run_state_machine_as_test(Machine, settings=machine_settings)
