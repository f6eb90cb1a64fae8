"""Answers to COMMIT that are lost: F20."""

from __future__ import annotations

import os
import signal
from typing import TYPE_CHECKING

import psycopg
import pytest

from longtake import open_database
from longtake.db.errors import DatabaseUnavailable
from tests.db.proxy import Cut, CuttingProxy
from tests.wait import wait_for

if TYPE_CHECKING:
    from collections.abc import Iterator

    from longtake import Transaction
    from proofs.faults.lab import Lab
    from proofs.faults.servers import StoppableServer


CUTS = 12
CRASHES = 6


class NumberKept(Exception):
    """The server had flushed the transaction's number before it crashed, so that this crash shows nothing."""


@pytest.fixture
def proxy(postgresql_lab: Lab) -> Iterator[CuttingProxy]:
    proxy = CuttingProxy(postgresql_lab.url)
    yield proxy
    proxy.close()


@pytest.mark.parametrize("cut", [Cut.AFTER, Cut.BEFORE])
def test_a_lost_answer_to_commit_doubles_no_effect(postgresql_lab: Lab, proxy: CuttingProxy, cut: Cut) -> None:
    """F20: the answer to COMMIT is lost."""
    lab = postgresql_lab
    child = lab.start(url=proxy.url, lease_seconds=30.0, concurrency=10)
    ids = lab.enqueue(40, snoozes=1, then=[{"kind": "task"}])
    cuts = 0

    def cut_until_drained() -> bool:
        nonlocal cuts
        if proxy.cut is None and cuts < CUTS:
            proxy.cut = cut
            cuts += 1
        return lab.live() == 0

    wait_for(cut_until_drained, "all jobs have ended")
    assert cuts >= CUTS / 2
    assert child.alive
    lab.check(ids)
    # Each one's follow-up was enqueued once.
    assert lab.sql("SELECT count(*) FROM jobs_ended") == [(80,)]
    assert lab.sql("SELECT count(*) FROM effects") == [(80,)]


@pytest.mark.parametrize("crash", ["of the machine", "of one server process"])
async def test_a_reused_transaction_number_after_a_crash_is_not_taken_for_ours(
    restarted_lab: Lab, stoppable_server: StoppableServer, crash: str
) -> None:
    """F20: What was never flushed is lost with the server's memory, and the transaction's number is used again."""
    lab = restarted_lab
    database = open_database(lab.url)
    calls = 0

    def write(tx: Transaction) -> int:
        nonlocal calls
        calls += 1
        number, process = tx.sql("SELECT pg_current_xact_id()::text::bigint, pg_backend_pid()")[0]
        tx.sql("INSERT INTO effects (job_id) VALUES ('ours')")
        if calls == 1:
            if crash == "of the machine":
                stoppable_server.halt("immediate")
                stoppable_server.start()
            else:
                # PostgreSQL then ends all its processes and recovers.
                os.kill(process, signal.SIGKILL)
            _use_number(lab.url, number)
        return calls

    try:
        for _ in range(CRASHES):
            calls = 0
            try:
                told = await database.run(write)
            except DatabaseUnavailable:
                told = 0
            except NumberKept:
                continue
            break
        else:
            pytest.fail(f"The number was kept in each of {CRASHES} crashes: nothing was shown.")
        written = lab.sql("SELECT count(*) FROM effects WHERE job_id = 'ours'")[0][0]
        assert told == 0 or written == 1
    finally:
        database.close()


def _use_number(url: str, number: int) -> None:
    """Commit transactions until the number has been used again; when something was flushed, it never is."""
    if wait_for(lambda: _used_up_to(url, number), "the server takes transactions again") != number:
        raise NumberKept


def _used_up_to(url: str, number: int) -> int:
    used = 0
    try:
        with psycopg.connect(url, autocommit=True) as connection:
            while used < number:
                row = connection.execute("SELECT pg_current_xact_id()::text::bigint").fetchone()
                used = row[0] if row else 0
    except psycopg.OperationalError:
        return 0
    return used
