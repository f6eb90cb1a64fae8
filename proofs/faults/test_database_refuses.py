"""A database that takes no writes for a while: F28, and what an absence must not do to living workers."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pytest

from longtake import open_database
from longtake.db.errors import DatabaseReadOnly
from tests.databases import as_administrator
from tests.outside import plain_sql
from tests.wait import wait_for

if TYPE_CHECKING:
    from collections.abc import Iterator

    from longtake import Transaction
    from proofs.faults.lab import Lab
    from proofs.faults.servers import StoppableServer

WORKERS = "SELECT id FROM workers ORDER BY id"
LEASE_SECONDS = 2.0


@pytest.fixture
def writable_again(restarted_lab: Lab) -> Iterator[None]:
    yield
    set_read_only(restarted_lab, read_only=False)


def set_read_only(lab: Lab, *, read_only: bool) -> None:
    """Do to open and new connections what a failover to a standby does."""
    wanted = "on" if read_only else "off"
    for statement in (f"ALTER SYSTEM SET default_transaction_read_only = {wanted}", "SELECT pg_reload_conf()"):
        plain_sql(as_administrator(lab.url), statement)
    wait_for(lambda: lab.sql("SHOW default_transaction_read_only") == [(wanted,)], "the server has read it")


def slowest(lab: Lab) -> int:
    """Return the beat of the worker that has beaten least."""
    return min(int(row[0]) for row in lab.sql("SELECT beat FROM workers"))


def write(tx: Transaction) -> None:
    tx.sql("INSERT INTO effects (job_id) VALUES ('submitted')")


@pytest.mark.usefixtures("writable_again")
async def test_a_read_only_server_is_refused_clearly_and_work_resumes_when_it_takes_writes(
    restarted_lab: Lab,
) -> None:
    """F28: a read-only database server."""
    lab = restarted_lab
    database = open_database(lab.url)
    tries = 0

    def write_and_count(tx: Transaction) -> None:
        nonlocal tries
        tries += 1
        write(tx)

    try:
        child = lab.start(lease_seconds=30.0)
        ids = lab.enqueue(5, until="go")
        lab.wait_for("start", count=5)
        set_read_only(lab, read_only=True)

        with pytest.raises(DatabaseReadOnly, match="takes no writes") as refused:
            await database.run(write_and_count)
        assert tries == 1, "it is told at once: trying again would not help"
        assert "primary" in refused.value.hint
        assert await database.read(lambda tx: tx.sql("SELECT count(*) FROM jobs")) == [(5,)]

        lab.let("go")
        lab.wait_for("end", count=5)
        log = lab.folder / f"log-{child.id}"
        wait_for(lambda: "DATABASE_READ_ONLY" in log.read_text(), "the worker is refused too")
        set_read_only(lab, read_only=False)
        await database.run(write)
        lab.sql("DELETE FROM effects WHERE job_id = 'submitted'")
        lab.drained()
        lab.check(ids)
        assert {tuple(lab.attempts(job)) for job in ids} == {("done",)}
    finally:
        database.close()


@pytest.mark.usefixtures("writable_again")
@pytest.mark.parametrize("how", ["read-only", "stopped"])
def test_an_outage_longer_than_a_lease_buries_no_living_worker(
    restarted_lab: Lab, stoppable_server: StoppableServer, how: str
) -> None:
    """F18: the database server restarts."""
    lab = restarted_lab
    children = [lab.start(lease_seconds=LEASE_SECONDS) for _ in range(3)]
    ids = lab.enqueue(9, until="go")
    lab.wait_for("start", count=9)
    # All nine jobs may be with the first two while the third is still on its way into the table.
    before = wait_for(lambda: lab.sql(WORKERS), "three workers", lambda rows: len(rows) == len(children))
    if how == "read-only":
        set_read_only(lab, read_only=True)
    else:
        stoppable_server.halt("fast")
    gone_at = time.monotonic()
    wait_for(lambda: time.monotonic() > gone_at + 1.4 * LEASE_SECONDS, "the last leases have run out long since")
    if how == "read-only":
        set_read_only(lab, read_only=False)
    else:
        stoppable_server.start()
    # No worker could beat, so that none did says nothing about any of them.
    beats = slowest(lab)
    wait_for(lambda: slowest(lab), "all beat again", lambda beat: beat >= beats + 3)
    assert lab.sql(WORKERS) == before
    lab.let("go")
    lab.drained()
    lab.check(ids)
    assert all(child.alive for child in children)
    assert {tuple(lab.attempts(job)) for job in ids} == {("done",)}
