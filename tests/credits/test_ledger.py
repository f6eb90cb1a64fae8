"""What moves credits, on both databases: every step leaves the balance and the entries in agreement."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from longtake.clock import new_id
from longtake.errors import InvalidText, NotFound, StateConflict
from longtake.services.credits import Balance, balance, end_holds, grant, hold, refund, withdraw
from longtake.services.credits.errors import InsufficientCredits, InvalidAmount, TooManyTasks
from longtake.services.credits.holds import Ended
from longtake.services.credits.transfers import AMOUNT_LIMIT, BALANCE_LIMIT
from tests.credits.stage import audit, begin, capture, end_task, give, kinds, release, sums, told

if TYPE_CHECKING:
    from longtake import Database, Transaction


def test_a_grant_comes_from_the_program_and_is_available(database: Database) -> None:
    made = database.run_blocking(give, "ada", 100)
    assert database.run_blocking(balance, "ada") == Balance(100, 0)
    assert database.run_blocking(sums) == {(None, "issued"): -100, ("ada", "available"): 100}
    assert database.run_blocking(told) == [
        (made.id, "ada", {"kind": "grant", "amount": 100, "available": 100, "held": 0})
    ]


def test_a_user_to_whom_nothing_was_granted_has_nothing(database: Database) -> None:
    assert database.run_blocking(balance, "nobody") == Balance(0, 0)
    with pytest.raises(InsufficientCredits) as refused:
        database.run_blocking(begin, "nobody", 1)
    assert refused.value.facts == {"balance": 0, "price": 1}


def test_a_hold_sets_aside_and_a_capture_earns(database: Database) -> None:
    database.run_blocking(give, "ada", 100)
    task = database.run_blocking(begin, "ada", 30)
    assert database.run_blocking(balance, "ada") == Balance(70, 30)
    assert database.run_blocking(capture, [task]) == [task]
    assert database.run_blocking(balance, "ada") == Balance(70, 0)
    expected = {(None, "issued"): -100, ("ada", "available"): 70, ("ada", "held"): 0, (None, "earned"): 30}
    assert database.run_blocking(sums) == expected
    data = [one[2] for one in database.run_blocking(told)]
    assert [(one["kind"], one["available"], one["held"]) for one in data] == [
        ("grant", 100, 0),
        ("hold", 70, 30),
        ("capture", 70, 0),
    ]
    assert [one[0] for one in database.run_blocking(told)][1:] == [task, task]


def test_a_release_gives_back_with_its_reason(database: Database) -> None:
    database.run_blocking(give, "ada", 100)
    tasks = [database.run_blocking(begin, "ada", amount) for amount in (30, 20)]
    reasons = {tasks[0]: "TIMEOUT", tasks[1]: "CANCELLED"}
    assert database.run_blocking(release, tasks, reasons) == {tasks[0]: 30, tasks[1]: 20}
    assert database.run_blocking(balance, "ada") == Balance(100, 0)

    def written(tx: Transaction) -> list[tuple[Any, ...]]:
        return tx.sql("SELECT amount, reason FROM credit_transfers WHERE kind = 'release' ORDER BY amount")

    assert database.run_blocking(written) == [(20, "CANCELLED"), (30, "TIMEOUT")]


def test_too_little_is_refused_with_balance_and_price_and_leaves_no_trace(database: Database) -> None:
    database.run_blocking(give, "ada", 29)
    task = new_id()
    with pytest.raises(InsufficientCredits) as refused:
        database.run_blocking(begin, "ada", 30, task)
    assert refused.value.facts == {"balance": 29, "price": 30}
    assert database.run_blocking(kinds) == ["grant"]
    assert database.run_blocking(capture, [task]) == []
    database.run_blocking(begin, "ada", 29, task)
    assert database.run_blocking(balance, "ada") == Balance(0, 29)


@pytest.mark.parametrize("end", ["captured", "released"])
def test_a_hold_ends_once(database: Database, end: str) -> None:
    database.run_blocking(give, "ada", 100)
    task = database.run_blocking(begin, "ada", 30)
    database.run_blocking(capture, [task]) if end == "captured" else database.run_blocking(release, [task], "x")
    before = database.run_blocking(kinds), database.run_blocking(balance, "ada")
    assert database.run_blocking(capture, [task]) == []
    assert database.run_blocking(release, [task], "late") == {}
    assert (database.run_blocking(kinds), database.run_blocking(balance, "ada")) == before


def test_a_task_is_held_for_once(database: Database) -> None:
    database.run_blocking(give, "ada", 100)
    task = database.run_blocking(begin, "ada", 30)
    for again in (lambda tx: hold(tx, user_id="ada", amounts={task: 30}), lambda tx: end_first(tx, task)):
        with pytest.raises(StateConflict):
            database.run_blocking(again)
    assert database.run_blocking(balance, "ada") == Balance(70, 30)


def end_first(tx: Transaction, task: str) -> None:
    capture(tx, [task])
    hold(tx, user_id="ada", amounts={task: 30})


def test_a_free_task_has_a_hold_that_ends_but_moves_nothing(database: Database) -> None:
    tasks = [database.run_blocking(begin, "nobody", 0) for _ in range(2)]
    assert database.run_blocking(capture, tasks[:1]) == tasks[:1]
    assert database.run_blocking(capture, tasks[:1]) == []
    assert database.run_blocking(release, tasks[1:], "x") == {tasks[1]: 0}
    assert database.run_blocking(kinds) == []
    with pytest.raises(StateConflict, match="cost nothing"):
        database.run_blocking(lambda tx: refund(tx, task_id=tasks[0], made_by="root", reason="x"))


@pytest.mark.parametrize("price", [0, 5])
def test_a_user_has_no_more_open_holds_than_allowed(database: Database, price: int) -> None:
    if price:
        database.run_blocking(give, "ada", 100)

    def begin_one(tx: Transaction, task_id: str) -> str:
        return begin(tx, "ada", price, task_id, most=2)

    first, _second = (database.run_blocking(begin_one, new_id()) for _ in range(2))
    with pytest.raises(TooManyTasks) as refused:
        database.run_blocking(begin_one, new_id())
    assert refused.value.facts == {"limit": 2}
    database.run_blocking(release, [first], "x")
    database.run_blocking(end_task, first, "failed")
    database.run_blocking(begin_one, new_id())
    with pytest.raises(TooManyTasks):
        database.run_blocking(begin_one, new_id())
    assert database.run_blocking(audit) == []


def test_a_batch_of_many_users_and_many_tasks_of_each_sums_up(database: Database) -> None:
    users = ["ada", "bob", "cyd"]
    for user in users:
        database.run_blocking(give, user, 1000)
    tasks = [database.run_blocking(begin, users[number % 3], 1 + number) for number in range(60)]
    gone = new_id()
    ended = database.run_blocking(
        lambda tx: end_holds(tx, capture=[*tasks[:30], gone], release=dict.fromkeys(tasks[30:], "x"))
    )
    assert set(ended.captured) == set(tasks[:30])
    assert ended.released == {task: 31 + number for number, task in enumerate(tasks[30:])}
    for place, user in enumerate(users):
        spent = sum(1 + number for number in range(30) if number % 3 == place)
        assert database.run_blocking(balance, user) == Balance(1000 - spent, 0)
    for task in tasks:
        status = "completed" if task in ended.captured else "failed"
        database.run_blocking(end_task, task, status)
    assert database.run_blocking(audit) == []


def test_an_empty_batch_does_nothing(database: Database) -> None:
    assert database.run_blocking(end_holds) == Ended([], {})
    assert database.run_blocking(capture, []) == []
    assert database.run_blocking(release, [], "x") == {}


def test_one_hold_cannot_be_captured_and_released(database: Database) -> None:
    database.run_blocking(give, "ada", 100)
    task = database.run_blocking(begin, "ada", 30)
    with pytest.raises(ValueError, match="not both"):
        database.run_blocking(lambda tx: end_holds(tx, capture=[task], release={task: "x"}))


def test_a_refund_reverses_a_capture_once_and_is_noted_at_the_task(database: Database) -> None:
    database.run_blocking(give, "ada", 100)
    task = database.run_blocking(begin, "ada", 30)

    def give_back(tx: Transaction) -> None:
        refund(tx, task_id=task, made_by="root", reason="unusable")

    with pytest.raises(StateConflict, match="still held") as early:
        database.run_blocking(give_back)
    assert early.value.facts == {"hold_state": "open"}
    database.run_blocking(capture, [task])
    database.run_blocking(end_task, task, "completed")
    database.run_blocking(give_back)
    assert database.run_blocking(balance, "ada") == Balance(100, 0)
    assert database.run_blocking(sums)[None, "earned"] == 0
    noted = database.run_blocking(lambda tx: tx.sql("SELECT credits_refunded FROM tasks"))
    assert noted == [(30,)]
    with pytest.raises(StateConflict, match="refunded already"):
        database.run_blocking(give_back)
    assert database.run_blocking(balance, "ada") == Balance(100, 0)
    assert database.run_blocking(audit) == []


def test_what_was_released_or_never_held_cannot_be_refunded(database: Database) -> None:
    database.run_blocking(give, "ada", 100)
    task = database.run_blocking(begin, "ada", 30)
    database.run_blocking(release, [task], "x")
    with pytest.raises(StateConflict, match="were released"):
        database.run_blocking(lambda tx: refund(tx, task_id=task, made_by="root", reason="x"))
    with pytest.raises(NotFound):
        database.run_blocking(lambda tx: refund(tx, task_id=new_id(), made_by="root", reason="x"))


def test_only_available_credits_can_be_withdrawn(database: Database) -> None:
    database.run_blocking(give, "ada", 100)
    database.run_blocking(begin, "ada", 30)

    def take(tx: Transaction, amount: int) -> None:
        withdraw(tx, user_id="ada", amount=amount, reason="mistake", made_by="root", reference=f"w{amount}")

    with pytest.raises(InsufficientCredits):
        database.run_blocking(take, 71)
    database.run_blocking(take, 70)
    database.run_blocking(take, 70)
    assert database.run_blocking(balance, "ada") == Balance(0, 30)
    assert database.run_blocking(sums)[None, "issued"] == -30


def test_the_same_reference_is_the_same_grant(database: Database) -> None:
    first = database.run_blocking(give, "ada", 100, "payment 1")
    assert database.run_blocking(give, "ada", 100, "payment 1") == first
    assert database.run_blocking(give, "ada", 100, "payment 2").id != first.id
    assert database.run_blocking(balance, "ada") == Balance(200, 0)
    for user, amount in (("bob", 100), ("ada", 101)):
        with pytest.raises(StateConflict, match="payment 1"):
            database.run_blocking(give, user, amount, "payment 1")
    assert len(database.run_blocking(kinds)) == 2


def test_only_whole_numbers_in_bounds_are_amounts(database: Database) -> None:
    wrong: list[Any] = [-1, True, False, 1.0, 2.5, "5", None, AMOUNT_LIMIT + 1]
    for amount in wrong:
        for spend in (give, begin):
            with pytest.raises(InvalidAmount):
                database.run_blocking(spend, "ada", amount)
    with pytest.raises(InvalidAmount):
        database.run_blocking(give, "ada", 0)
    assert database.run_blocking(kinds) == []


def test_the_largest_amount_works_and_a_balance_has_an_end(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    database.run_blocking(give, "ada", AMOUNT_LIMIT)

    limit = 5 * AMOUNT_LIMIT
    monkeypatch.setattr("longtake.services.credits.transfers.BALANCE_LIMIT", limit)
    for _ in range(4):
        database.run_blocking(give, "ada", AMOUNT_LIMIT)
    with pytest.raises(InvalidAmount, match="A user cannot have more"):
        database.run_blocking(give, "ada", 1)
    assert database.run_blocking(balance, "ada") == Balance(limit, 0)
    assert BALANCE_LIMIT + AMOUNT_LIMIT < 2**63


def test_texts_that_cannot_be_kept_are_refused(database: Database) -> None:
    for wrong in ({"user_id": ""}, {"user_id": "a\x00b"}, {"reason": ""}, {"reason": "x" * 501}, {"reference": ""}):
        given = {"user_id": "ada", "reason": "x", "made_by": "root", **wrong}
        with pytest.raises(InvalidText):
            database.run_blocking(grant_as_given, given)


def grant_as_given(tx: Transaction, given: dict[str, str]) -> None:
    grant(tx, amount=1, **given)
