"""Workers that stand still and come back: F6, F10, F17."""

from __future__ import annotations

import asyncio
import inspect
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

from longtake import Engine, Lane, Worker, open_database
from longtake.clock import new_id
from longtake.db.postgresql_session import SessionOptions
from longtake.engine.leases import find_workers, register_worker, remove_dead_workers
from longtake.engine.queue import QueueName
from tests.wait import wait_for

if TYPE_CHECKING:
    from longtake import Database, Transaction
    from longtake.engine.queue import Claim
    from proofs.faults.lab import Child, Lab

WEDGED_SOON = ("longtake.engine.membership", "WEDGED_GRACE_SECONDS", 0.5)


def workers(lab: Lab) -> set[str]:
    return {str(row[0]) for row in lab.sql("SELECT id FROM workers")}


def wait_until_buried(lab: Lab, child: Child) -> str:
    """Wait until the others have taken the child for dead; return who it was."""
    [line] = lab.evidence("ready", process=child.id)
    wait_for(lambda: line["worker"] not in workers(lab), "the frozen worker is buried")
    return str(line["worker"])


def test_a_worker_frozen_past_its_lease_changes_nothing_and_continues_as_a_new_worker(
    postgresql_lab: Lab,
) -> None:
    """F6: frozen for longer than the lease."""
    lab = postgresql_lab
    frozen = lab.start()
    ids = lab.enqueue(3, first_until="woken", until="go")
    lab.wait_for("start", count=3, process=frozen.id)
    frozen.freeze()
    other = lab.start()
    buried = wait_until_buried(lab, frozen)
    lab.wait_for("start", count=3, process=other.id)
    # Its handlers are done the moment it wakes, before it can know that it was buried.
    lab.let("woken")
    frozen.thaw()
    lab.wait_for("end", count=3, process=frozen.id)
    wait_for(lambda: len(workers(lab)) == 2, "it goes on as a new worker")
    assert buried not in workers(lab)
    assert {lab.job(job)["state"] for job in ids} == {"running"}
    assert lab.sql("SELECT * FROM effects") == []

    lab.let("go")
    lab.drained()
    lab.check(ids)
    assert {row[0] for row in lab.sql("SELECT process FROM effects")} == {other.id}
    assert {tuple(lab.attempts(job)) for job in ids} == {("crashed", "done")}
    other.kill()
    [again] = lab.enqueue()
    lab.wait_for("end", job=again, process=frozen.id)
    lab.drained()
    lab.check([*ids, again])


def test_the_handlers_of_a_buried_worker_are_stopped(postgresql_lab: Lab) -> None:
    """F6: frozen for longer than the lease."""
    lab = postgresql_lab
    frozen = lab.start()
    [job] = lab.enqueue(until="go")
    lab.wait_for("start", process=frozen.id)
    frozen.freeze()
    other = lab.start()
    wait_until_buried(lab, frozen)
    lab.wait_for("start", process=other.id)
    frozen.thaw()
    lab.wait_for("stopped", job=job, process=frozen.id)
    lab.let("go")
    lab.drained()
    lab.check([job])


def test_a_worker_frozen_inside_a_claim_delays_the_others_for_a_lease_at_most(postgresql_lab: Lab) -> None:
    """F6: frozen for longer than the lease."""
    lab = postgresql_lab
    shipped = inspect.signature(Worker).parameters["lease_seconds"].default
    assert SessionOptions("").idle_seconds <= shipped / 2
    ids = lab.enqueue(3)
    frozen = lab.start(hold="claim", session=(("idle_seconds", 1.0),))
    lab.wait_for("holding", process=frozen.id)
    frozen.freeze()
    lab.let("go")
    lab.start()
    # The server ends the transaction that stands still, and its jobs are free again.
    lab.drained()
    lab.check(ids)

    frozen.thaw()
    again = lab.enqueue(10, seconds=0.3)
    lab.drained()
    lab.check([*ids, *again])
    assert {lab.job(job)["crashes"] for job in [*ids, *again]} == {0}


def test_a_worker_frozen_after_a_claim_starts_nothing_when_it_wakes(postgresql_lab: Lab) -> None:
    """F6: frozen for longer than the lease."""
    lab = postgresql_lab
    narrow: dict[str, Any] = {"kinds": ("task", "narrow"), "lanes": (Lane("narrow", max_running=1),)}
    [job] = lab.enqueue(kind="narrow", lane="narrow", until="free")
    frozen = lab.start(hold="take", **narrow)
    lab.wait_for("holding", step="take")
    frozen.freeze()
    other = lab.start(**narrow)
    wait_until_buried(lab, frozen)
    lab.wait_for("start", job=job, process=other.id)
    lab.let("go")
    frozen.thaw()
    wait_for(lambda: len(workers(lab)) == 2, "it goes on as a new worker")
    lab.let("free")
    lab.drained()
    lab.check([job])
    # The lane has room for one, and that one is with another: it must not begin even for a moment.
    assert lab.evidence("start", process=frozen.id) == []


def test_a_worker_frozen_before_it_locks_a_lane_does_not_turn_the_lane_back(postgresql_lab: Lab) -> None:
    """F6: A transaction's time is that of its beginning: it is old when the process stood still after that."""
    lab = postgresql_lab
    database = open_database(lab.url)
    engine = Engine(database, lanes=[Lane("spaced", spacing=0.2)])
    begun, go = threading.Event(), threading.Event()
    stood_still = (
        "SELECT now() > xact_start + interval '1 second' FROM pg_stat_activity"
        " WHERE state = 'idle in transaction' AND datname = current_database()"
    )

    def claim_late(tx: Transaction) -> Claim:
        begun.set()
        go.wait(10)
        return engine.claim_lane(tx, "spaced", [QueueName("spaced", "task", 2)], new_id(), 1)

    def next_start() -> Any:
        return lab.sql("SELECT spaced_at FROM lanes WHERE name = 'spaced'")[0][0]

    try:
        database.run_blocking(engine.declare)
        with ThreadPoolExecutor(1) as another:
            frozen = another.submit(asyncio.run, database.run(claim_late))
            begun.wait(10)
            wait_for(lambda: lab.sql(stood_still) == [(True,)], "a second has passed")
            lab.sql("UPDATE lanes SET spaced_at = now() + interval '0.2 seconds' WHERE name = 'spaced'")
            before = next_start()
            go.set()
            assert frozen.result(10).jobs == []
        assert next_start() == before
    finally:
        go.set()
        database.close()


def test_a_buried_worker_can_claim_nothing(database: Database) -> None:
    """F6: frozen for longer than the lease."""
    engine = Engine(database)
    database.run_blocking(register_worker, new_id(), "frozen", "another incarnation", 30.0)
    [frozen], _orphans = database.run_blocking(find_workers)

    def enqueue_and_claim(tx: Transaction) -> Claim:
        engine.declare(tx)
        tx.sql("INSERT INTO job_kinds (name, lane, priority, max_attempts) VALUES ('task', 'default', 2, 5)")
        tx.sql("INSERT INTO jobs (kind) VALUES ('task')")
        return engine.exchange(tx, [], [QueueName("default", "task", 2)], frozen.id, 1, look=False)

    assert database.run_blocking(remove_dead_workers, [frozen]) == [frozen.id]
    assert database.run_blocking(enqueue_and_claim).jobs == []


def test_a_blocked_event_loop_keeps_its_leases(lab: Lab) -> None:
    """F10: a blocked event loop."""
    blocked = lab.start()
    [job] = lab.enqueue(block=2.5)
    lab.wait_for("start", job=job, process=blocked.id)
    if not lab.is_sqlite:
        lab.start()
    beside = lab.enqueue(5)
    lab.drained()
    lab.check([job, *beside])
    assert lab.job(job)["crashes"] == 0
    assert len(lab.evidence("start", job=job)) == 1


def test_a_handler_that_blocks_past_its_limit_and_grace_loses_its_job(postgresql_lab: Lab) -> None:
    """F10: a blocked event loop."""
    lab = postgresql_lab
    wedged = lab.start(time_limit=0.5, constants=(WEDGED_SOON,))
    [job] = lab.enqueue(block=3.0)
    lab.wait_for("start", job=job, process=wedged.id)
    other = lab.start()
    lab.wait_for("end", job=job, process=other.id)
    # The wedged handler returns in the end, and what it returns changes nothing.
    lab.wait_for("end", job=job, process=wedged.id)
    [after] = lab.enqueue()
    lab.drained()
    lab.check([job, after])
    assert lab.sql("SELECT process FROM effects WHERE job_id = ?", (job,)) == [(other.id,)]
    assert lab.attempts(job) == ["crashed", "done"]


def test_a_machine_that_slept_is_fenced(postgresql_lab: Lab) -> None:
    """F17: a machine that slept."""
    lab = postgresql_lab
    laptop = [lab.start(concurrency=3), lab.start(concurrency=3)]
    ids = lab.enqueue(6, until="go")
    lab.wait_for("start", count=6)
    for child in laptop:
        child.freeze()
    server = lab.start()
    for child in laptop:
        wait_until_buried(lab, child)
    lab.wait_for("start", count=6, process=server.id)
    for child in laptop:
        child.thaw()
    for child in laptop:
        lab.wait_for("stopped", process=child.id)
    lab.let("go")
    lab.drained()
    lab.check(ids)
    assert {row[0] for row in lab.sql("SELECT process FROM effects")} == {server.id}


def test_a_machine_that_slept_alone_continues_where_it_was(lab: Lab) -> None:
    """F17: a machine that slept."""
    sleeper = lab.start(lease_seconds=0.6, heartbeat_seconds=0.2)
    ids = lab.enqueue(3, until="go")
    lab.wait_for("start", count=3)
    beats = lab.sql("SELECT beat FROM workers")
    sleeper.freeze()
    wait_for(lambda: not _leases_left(lab), "the lease has run out")
    sleeper.thaw()
    wait_for(lambda: lab.sql("SELECT beat FROM workers") > beats, "it beats again")
    lab.let("go")
    lab.drained()
    lab.check(ids)
    assert {lab.job(job)["crashes"] for job in ids} == {0}


def _leases_left(lab: Lab) -> int:
    now = "strftime('%Y-%m-%d %H:%M:%f000', 'now')" if lab.is_sqlite else "now()"
    return int(lab.sql(f"SELECT count(*) FROM workers WHERE lease_until > {now}")[0][0])
