"""Clocks that are wrong or jump: F14, F15, F16."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.wait import wait_for

if TYPE_CHECKING:
    from proofs.faults.lab import Lab

HOUR = 3600


def set_server_clock(lab: Lab, seconds: int) -> None:
    """Let the server's clock be wrong by so much from now on; it goes on running."""
    lab.sql(
        "CREATE OR REPLACE FUNCTION public.now() RETURNS timestamptz LANGUAGE sql STABLE AS"
        f" $$ SELECT pg_catalog.now() + interval '{seconds} seconds' $$"
    )


def beats(lab: Lab) -> list[int]:
    return sorted(row[0] for row in lab.sql("SELECT beat FROM workers"))


def wait_for_beats(lab: Lab, count: int) -> None:
    """Wait until every worker has beaten so often: as good as time passing, but not a guess."""
    first = min(beats(lab))
    wait_for(lambda: min(beats(lab)) >= first + count, f"{count} beats of every worker")


def test_a_clock_that_jumps_an_hour_ahead_buries_no_living_worker(postgresql_lab: Lab) -> None:
    """F14: a clock that jumps an hour ahead."""
    lab = postgresql_lab
    children = [lab.start(), lab.start(), lab.start()]
    ids = lab.enqueue(9, until="go")
    lab.wait_for("start", count=9)
    before = lab.sql("SELECT id FROM workers ORDER BY id")
    set_server_clock(lab, HOUR)
    # Every lease is over by the server's clock; for more than a lease's length everybody looks at everybody.
    wait_for_beats(lab, 6)
    assert lab.sql("SELECT id FROM workers ORDER BY id") == before

    # Whoever is really dead is still rescued.
    children[0].kill()
    wait_for(lambda: len(beats(lab)) == 2, "the dead one is buried")
    lab.let("go")
    lab.drained()
    lab.check(ids)
    victims = {line["job"] for line in lab.evidence("start", process=children[0].id)}
    assert {job for job in ids if lab.job(job)["crashes"]} <= victims


def test_a_clock_that_jumps_an_hour_back_keeps_no_dead_worker_alive(postgresql_lab: Lab) -> None:
    """F15: a clock that jumps an hour back."""
    lab = postgresql_lab
    dead, living = lab.start(), lab.start()
    ids = lab.enqueue(4, until="go")
    lab.wait_for("start", count=4)
    dead.kill()
    set_server_clock(lab, -HOUR)
    # The dead one's lease runs for another hour by the server's clock.
    wait_for(lambda: len(beats(lab)) == 1, "the dead one is buried")
    lab.wait_for("start", process=living.id)
    lab.let("go")
    lab.drained()
    lab.check(ids)
    # Jobs that become due are due by the clock as it is now.
    [new] = lab.enqueue(snoozes=2)
    lab.drained()
    lab.check([*ids, new])


def test_a_clock_set_back_before_a_restart_delays_nothing(sqlite_lab: Lab) -> None:
    """F15: a clock that jumps an hour back."""
    lab = sqlite_lab
    child = lab.start(lease_seconds=30.0)
    ids = lab.enqueue(4, until="go")
    lab.wait_for("start", count=4)
    child.kill()
    lab.let("go")
    lab.start(lease_seconds=30.0, clock_offset=-HOUR)
    lab.drained()
    lab.check(ids)


def test_a_clock_set_ahead_before_a_restart_changes_nothing(sqlite_lab: Lab) -> None:
    """F14: a clock that jumps an hour ahead."""
    lab = sqlite_lab
    child = lab.start()
    ids = lab.enqueue(4, until="go")
    lab.wait_for("start", count=4)
    child.kill()
    lab.start(clock_offset=HOUR)
    lab.wait_for("start", count=8)
    wait_for_beats(lab, 5)
    lab.let("go")
    lab.drained()
    lab.check(ids)
    assert {lab.job(job)["crashes"] for job in ids} == {1}


def test_a_worker_whose_clock_is_ten_minutes_off_changes_nothing(postgresql_lab: Lab) -> None:
    """F16: a worker whose clock is wrong."""
    lab = postgresql_lab
    children = [lab.start(clock_offset=offset, concurrency=2) for offset in (-600.0, 600.0, 0.0)]
    running = lab.enqueue(6, until="go")
    lab.wait_for("start", count=6)
    later = lab.enqueue(3, seconds=0.05, snoozes=2, retries=1)
    wait_for_beats(lab, 5)
    assert len(beats(lab)) == 3
    lab.let("go")
    lab.drained()
    lab.check([*running, *later])
    assert {lab.job(job)["crashes"] for job in [*running, *later]} == {0}
    assert {line["process"] for line in lab.evidence("end")} == {child.id for child in children}
    # Ten minutes never appear in anything they wrote.
    odd = "SELECT id FROM jobs_ended WHERE abs(extract(epoch FROM ended_at - now())) > 60"
    assert lab.sql(odd) == []
