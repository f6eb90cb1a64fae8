"""Leases: who counts as dead needs two witnesses, and clocks that jump are none."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from longtake import Database, Engine
from longtake.clock import new_id
from longtake.engine.leases import (
    Witness,
    beat,
    find_workers,
    register_worker,
    remove_dead_workers,
    retire_worker,
    return_jobs,
)
from tests.databases import StoppedClock
from tests.engine.stage import build, claim, enqueue, hire, live

if TYPE_CHECKING:
    from longtake.engine.leases import WorkerState

LEASE = 30.0
HEARTBEAT = 10.0
SHORT = 7.5
HOUR = 3600.0


class Crowd:
    """Some workers and one rescuer, driven by hand; those named as silent do not beat."""

    def __init__(self, database: Database, clock: StoppedClock, count: int = 3) -> None:
        self.database = database
        self.clock = clock
        self.rescuer = database.run_blocking(hire, LEASE)
        self.others = [database.run_blocking(hire, LEASE) for _ in range(count)]
        self.witness = Witness(clock, LEASE, None)

    def look(self) -> set[str]:
        """Return whom the rescuer calls dead now."""
        seen, _orphans = self.database.run_blocking(find_workers)
        return {one.id for one in self.witness.dead(seen, self.rescuer)}

    def pass_time(self, seconds: float, silent: set[str] | None = None) -> set[str]:
        """Let time pass in steps of half a heartbeat; return everyone who was called dead on the way."""
        dead: set[str] = set()
        for step in range(round(seconds / (HEARTBEAT / 2))):
            self.clock.advance(HEARTBEAT / 2)
            if step % 2:
                for worker in [self.rescuer, *self.others]:
                    if worker not in (silent or set()):
                        self.database.run_blocking(beat, worker, LEASE)
            dead |= self.look()
        return dead


@pytest.fixture
def crowd(stopped_database: Database, clock: StoppedClock) -> Crowd:
    return Crowd(stopped_database, clock)


def test_a_beat_renews_the_lease_and_says_what_is_held(stopped_database: Database, clock: StoppedClock) -> None:
    engine = build(stopped_database)
    run = stopped_database.run_blocking
    worker = run(hire, LEASE)
    ids = {enqueue(engine), enqueue(engine)}
    jobs = run(claim, engine, worker)
    clock.advance(20)
    pulse = run(beat, worker, LEASE)
    assert pulse.alive
    assert pulse.held == {job.id: job.lease_token for job in jobs}
    assert set(pulse.held) == ids
    assert pulse.cancelling == frozenset()
    [seen], orphans = run(find_workers)
    assert (seen.id, seen.beat, orphans) == (worker, 1, 0)
    assert seen.lease_left == pytest.approx(LEASE)


def test_a_beat_of_nobody_says_so(stopped_database: Database) -> None:
    pulse = stopped_database.run_blocking(beat, new_id(), LEASE)
    assert not pulse.alive
    assert pulse.held == {}


def test_a_worker_that_retires_is_gone(stopped_database: Database) -> None:
    run = stopped_database.run_blocking
    worker = run(hire)
    run(retire_worker, worker)
    run(retire_worker, worker)
    assert run(find_workers) == ([], 0)


def test_registering_again_is_harmless(stopped_database: Database) -> None:
    """The answer to the first time may have been lost."""
    run = stopped_database.run_blocking
    worker = new_id()
    for _ in range(2):
        run(register_worker, worker, "test", None, LEASE)
    [seen], _orphans = run(find_workers)
    assert seen.id == worker


def test_who_beats_lives_for_ever(crowd: Crowd) -> None:
    assert crowd.pass_time(240) == set()


def test_who_is_silent_is_dead_after_a_lease_and_not_before(crowd: Crowd) -> None:
    silent = crowd.others[0]
    crowd.pass_time(HEARTBEAT)
    assert crowd.pass_time(LEASE - HEARTBEAT / 2, {silent}) == set()
    assert crowd.pass_time(15, {silent}) == {silent}


def test_a_clock_an_hour_ahead_buries_no_living_worker(crowd: Crowd) -> None:
    """F14: a clock that jumps an hour ahead."""
    crowd.pass_time(60)
    crowd.clock.jump(HOUR)
    assert crowd.look() == set()
    assert crowd.pass_time(120) == set()


def test_a_clock_an_hour_ahead_does_not_save_dead_workers(crowd: Crowd) -> None:
    """F14: a clock that jumps an hour ahead."""
    crowd.pass_time(60)
    crowd.clock.jump(HOUR)
    assert crowd.pass_time(60, {crowd.others[1]}) == {crowd.others[1]}


def test_a_clock_an_hour_back_keeps_no_dead_worker_alive(crowd: Crowd) -> None:
    """F15: a clock that jumps an hour back."""
    crowd.pass_time(60)
    crowd.clock.jump(-HOUR)
    assert crowd.look() == set()
    assert crowd.pass_time(60, {crowd.others[0]}) == {crowd.others[0]}


def test_a_clock_an_hour_back_buries_no_living_worker(crowd: Crowd) -> None:
    """F15: a clock that jumps an hour back."""
    crowd.pass_time(60)
    crowd.clock.jump(-HOUR)
    assert crowd.pass_time(120) == set()


def test_the_clock_of_a_worker_has_no_effect(stopped_database: Database, clock: StoppedClock) -> None:
    """F16: A worker's wall clock is never asked: ten minutes off, it beats and judges like the others."""
    crowd = Crowd(stopped_database, clock)
    wrong = StoppedClock()
    wrong.jump(600)

    class Wrong:
        def now(self) -> object:
            raise AssertionError("a worker's wall clock was asked")

        def monotonic(self) -> float:
            return clock.monotonic()

    crowd.witness = Witness(Wrong(), LEASE, None)  # type: ignore[arg-type]
    assert crowd.pass_time(120) == set()
    assert crowd.pass_time(60, {crowd.others[2]}) == {crowd.others[2]}


def test_a_rescuer_that_was_cut_off_itself_is_no_judge(crowd: Crowd) -> None:
    """The database was away for two minutes: nobody could beat, and everybody gets a lease's time again."""
    crowd.pass_time(60)
    crowd.clock.advance(120)
    assert crowd.look() == set()
    assert crowd.pass_time(LEASE) == set()
    assert crowd.pass_time(60, {crowd.others[0]}) == {crowd.others[0]}


def test_a_rescuer_that_has_just_come_waits_a_lease_itself(crowd: Crowd) -> None:
    """It has only the database's word yet; the second witness is its own patience."""
    silent = set(crowd.others)
    crowd.clock.advance(600)
    crowd.database.run_blocking(beat, crowd.rescuer, LEASE)
    assert crowd.look() == set()
    assert crowd.pass_time(LEASE - HEARTBEAT, silent) == set()
    assert crowd.pass_time(LEASE, silent) == silent


class Hurried:
    """A rescuer with a short lease, and one worker with a usual one."""

    def __init__(self, database: Database, clock: StoppedClock) -> None:
        self.database = database
        self.clock = clock
        self.rescuer = database.run_blocking(hire, SHORT)
        self.other = database.run_blocking(hire, LEASE)
        self.witness = Witness(clock, SHORT, None)

    def pass_time(self, seconds: float) -> set[str]:
        """Let time pass, in which only the rescuer beats; return whom it called dead."""
        dead: set[str] = set()
        for _ in range(round(seconds)):
            self.clock.advance(1.0)
            self.database.run_blocking(beat, self.rescuer, SHORT)
            seen, _orphans = self.database.run_blocking(find_workers)
            dead |= {one.id for one in self.witness.dead(seen, self.rescuer)}
        return dead


@pytest.fixture
def hurried(stopped_database: Database, clock: StoppedClock) -> Hurried:
    return Hurried(stopped_database, clock)


def test_a_rescuer_with_a_short_lease_judges_others_by_theirs(hurried: Hurried) -> None:
    """Between two beats of the other lie ten seconds, and nearly all its lease is left: it lives."""
    for _ in range(6):
        assert hurried.pass_time(HEARTBEAT - 1) == set()
        hurried.clock.advance(1.0)
        hurried.database.run_blocking(beat, hurried.other, LEASE)
    assert hurried.pass_time(LEASE - 1) == set()
    assert hurried.pass_time(5) == {hurried.other}


@pytest.mark.parametrize("seconds", [HOUR, -HOUR])
def test_a_clock_that_was_set_does_not_shorten_anothers_lease(hurried: Hurried, seconds: float) -> None:
    hurried.pass_time(5)
    hurried.clock.jump(seconds)
    assert hurried.pass_time(LEASE - 6) == set()
    assert hurried.pass_time(10) == {hurried.other}


def test_who_looks_rarely_gives_a_short_lease_the_time_of_its_own(
    stopped_database: Database, clock: StoppedClock
) -> None:
    """The database was away for a moment, which a rescuer that looks every five seconds need not have noticed."""
    crowd = Crowd(stopped_database, clock, count=0)
    short = stopped_database.run_blocking(hire, SHORT)
    assert crowd.pass_time(LEASE - HEARTBEAT) == set()
    assert crowd.pass_time(20) == {short}


def test_who_beats_at_the_last_moment_is_not_buried(crowd: Crowd) -> None:
    run = crowd.database.run_blocking
    silent = crowd.others[0]
    crowd.pass_time(60, {silent})
    seen, _orphans = run(find_workers)
    dead: list[WorkerState] = crowd.witness.dead(seen, crowd.rescuer)
    run(beat, silent, LEASE)
    assert run(remove_dead_workers, dead) == []
    assert run(beat, silent, LEASE).alive
    crowd.pass_time(60, {silent})
    seen, _orphans = run(find_workers)
    assert run(remove_dead_workers, crowd.witness.dead(seen, crowd.rescuer)) == [silent]
    assert not run(beat, silent, LEASE).alive


def test_a_new_owner_of_the_file_knows_at_once_that_all_others_are_gone(
    stopped_database: Database, clock: StoppedClock
) -> None:
    run = stopped_database.run_blocking
    old, mine, brother = new_id(), new_id(), new_id()
    run(register_worker, old, "before", "the incarnation before", LEASE)
    run(register_worker, mine, "me", "this incarnation", LEASE)
    run(register_worker, brother, "beside me", "this incarnation", LEASE)
    seen, _orphans = run(find_workers)
    assert [one.id for one in Witness(clock, LEASE, "this incarnation").dead(seen, mine)] == [old]


def test_jobs_that_nobody_knows_of_are_returned_unspent(stopped_database: Database) -> None:
    engine: Engine = build(stopped_database)
    run = stopped_database.run_blocking
    job_id, kept = enqueue(engine), enqueue(engine)
    jobs = {job.id: job for job in run(claim, engine, run(hire))}
    run(return_jobs, [(job_id, jobs[job_id].lease_token), (kept, new_id())])
    row = run(live, job_id)
    assert (row.state, row.attempt, row.lease_token, row.worker) == ("ready", 0, None, None)
    assert run(live, kept).state == "running"
    # A second time changes nothing, even when somebody else has it by then.
    [again] = run(claim, engine, run(hire))
    run(return_jobs, [(job_id, jobs[job_id].lease_token)])
    assert run(live, job_id).lease_token == again.lease_token
