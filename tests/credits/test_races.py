"""F51 and F52: callers at the same time, on real databases with real connections."""

from __future__ import annotations

import asyncio
import itertools
from typing import TYPE_CHECKING

from longtake.clock import new_id
from longtake.errors import StateConflict
from longtake.services.credits import Balance, balance, end_holds, refund
from longtake.services.credits.errors import InsufficientCredits, TooManyTasks
from tests.credits.stage import audit, begin, capture, end_task, give, kinds, release

if TYPE_CHECKING:
    from longtake import Database, Transaction


async def test_of_a_hundred_submits_with_credit_for_one_exactly_one_is_accepted(database: Database) -> None:
    """F51: a hundred submits with credit for one."""
    database.run_blocking(give, "ada", 10)
    calls = [database.run(begin, "ada", 10, new_id()) for _ in range(100)]
    ends = await asyncio.gather(*calls, return_exceptions=True)
    accepted = [end for end in ends if isinstance(end, str)]
    refused = [end for end in ends if isinstance(end, InsufficientCredits)]
    assert (len(accepted), len(refused)) == (1, 99)
    assert database.run_blocking(balance, "ada") == Balance(0, 10)
    assert database.run_blocking(kinds) == ["grant", "hold"]
    assert database.run_blocking(audit) == []


async def test_of_a_hundred_submits_where_one_is_left_exactly_one_is_accepted(database: Database) -> None:
    database.run_blocking(give, "ada", 1000)
    for _ in range(2):
        database.run_blocking(begin, "ada", 10)
    calls = [database.run(begin, "ada", 10, new_id(), 3) for _ in range(100)]
    ends = await asyncio.gather(*calls, return_exceptions=True)
    assert sum(isinstance(end, str) for end in ends) == 1
    assert sum(isinstance(end, TooManyTasks) for end in ends) == 99
    assert database.run_blocking(balance, "ada") == Balance(970, 30)
    assert database.run_blocking(audit) == []


async def test_of_a_racing_capture_and_release_exactly_one_wins(database: Database) -> None:
    """F52: a refund races a settlement."""
    database.run_blocking(give, "ada", 1000)
    tasks = [database.run_blocking(begin, "ada", 10) for _ in range(20)]
    won = {"captured": 0, "released": 0}
    for task in tasks:
        captured, released, again = await asyncio.gather(
            database.run(capture, [task]), database.run(release, [task], "TIMEOUT"), database.run(capture, [task])
        )
        assert len(captured) + len(released) + len(again) == 1
        won["released" if released else "captured"] += 1
        database.run_blocking(end_task, task, "failed" if released else "completed")
    assert database.run_blocking(balance, "ada") == Balance(1000 - 10 * won["captured"], 0)
    assert database.run_blocking(audit) == []


async def test_a_refund_that_races_a_settlement_leaves_the_right_sum(database: Database) -> None:
    """F52: A refund finds the hold open, or captured; either way what the user has follows from what was answered."""
    database.run_blocking(give, "ada", 1000)
    spent = 0
    for _ in range(20):
        task = database.run_blocking(begin, "ada", 10)

        def give_back(tx: Transaction, task: str = task) -> None:
            refund(tx, task_id=task, made_by="root", reason="x")

        captured, *refunds = await asyncio.gather(
            database.run(capture, [task]),
            database.run(give_back),
            database.run(give_back),
            return_exceptions=True,
        )
        assert captured == [task]
        assert all(one is None or isinstance(one, StateConflict) for one in refunds)
        given_back = refunds.count(None)
        assert given_back <= 1
        spent += 10 * (1 - given_back)
        database.run_blocking(end_task, task, "completed")
    assert database.run_blocking(balance, "ada") == Balance(1000 - spent, 0)
    assert database.run_blocking(audit) == []


async def test_of_two_refunds_that_race_one_is_made(database: Database) -> None:
    database.run_blocking(give, "ada", 10)
    task = database.run_blocking(begin, "ada", 10)
    database.run_blocking(capture, [task])

    def give_back(tx: Transaction) -> None:
        refund(tx, task_id=task, made_by="root", reason="x")

    ends = await asyncio.gather(*(database.run(give_back) for _ in range(20)), return_exceptions=True)
    assert ends.count(None) == 1
    assert sum(isinstance(end, StateConflict) for end in ends) == 19
    assert database.run_blocking(balance, "ada") == Balance(10, 0)


async def test_grants_with_one_reference_that_race_are_one_grant(database: Database) -> None:
    grants = await asyncio.gather(*(database.run(give, "ada", 5, "payment") for _ in range(20)))
    assert len({one.id for one in grants}) == 1
    others = await asyncio.gather(
        *(database.run(give, f"user {number}", 5, "other") for number in range(20)), return_exceptions=True
    )
    assert sum(not isinstance(one, BaseException) for one in others) == 1
    assert sum(isinstance(one, StateConflict) for one in others) == 19
    assert database.run_blocking(balance, "ada") == Balance(5, 0)
    assert database.run_blocking(audit) == []


async def test_batches_in_opposite_orders_do_not_wait_for_each_other(database: Database) -> None:
    """A deadlock would be found by PostgreSQL and the function run again: so runs are counted."""
    users = [f"user {number}" for number in range(8)]
    for user in users:
        database.run_blocking(give, user, 10_000)
    runs = itertools.count()

    def settle(tx: Transaction, captured: list[str], released: list[str]) -> int:
        next(runs)
        ended = end_holds(tx, capture=captured, release=dict.fromkeys(released, "x"))
        return len(ended.captured) + len(ended.released)

    rounds = 10
    for _ in range(rounds):
        tasks = [database.run_blocking(begin, user, 1) for user in users for _ in range(4)]
        one, other = tasks[::4], tasks[1::4]
        mine, yours = tasks[2::4], tasks[3::4]
        ended = await asyncio.gather(
            # The same tasks, from both ends.
            database.run(settle, one, other[::-1]),
            database.run(settle, other[::-1], one),
            # Different tasks of the same users, who are charged here and given back there.
            database.run(settle, mine[:4], mine[4:]),
            database.run(settle, yours[4:], yours[:4]),
        )
        assert sum(ended) == len(tasks)
        database.run_blocking(end_as_charged, tasks)
    assert next(runs) == rounds * 4
    assert database.run_blocking(audit) == []


def end_as_charged(tx: Transaction, task_ids: list[str]) -> None:
    states = dict(tx.sql("SELECT task_id, state FROM credit_holds"))
    for task_id in task_ids:
        end_task(tx, task_id, "completed" if states[task_id] == "captured" else "failed")
