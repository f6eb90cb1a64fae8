"""Anything in any order: a few lines of plain Python say what everybody must have, and the audit finds nothing."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test

from longtake import Transaction, open_database
from longtake.clock import new_id
from longtake.errors import StateConflict
from longtake.services.credits import Balance, balance, end_holds, refund, withdraw
from longtake.services.credits.errors import InsufficientCredits
from tests.credits.stage import audit, begin, end_task, give, sums
from tests.thoroughness import tries

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

USERS = ("ada", "bob", "cyd")
SOMEBODY = st.sampled_from(USERS)
AMOUNT = st.integers(1, 60)
CHOICES = st.lists(st.integers(0, 1000), max_size=8)
ENDINGS = {"captured": "completed", "released": "failed"}


class LedgerMachine(RuleBasedStateMachine):
    """Three users; `tasks` has each task's user, price and state as they must be."""

    def __init__(self, file: Path) -> None:
        super().__init__()
        self.database = open_database(f"sqlite:///{file}")
        self.available = dict.fromkeys(USERS, 0)
        self.granted: dict[str, tuple[str, int]] = {}
        self.tasks: dict[str, dict[str, Any]] = {}

    def teardown(self) -> None:
        self.database.close()

    def run(self, function: Callable[..., Any], *arguments: Any) -> Any:
        return self.database.run_blocking(function, *arguments)

    def pick(self, choices: list[int]) -> list[str]:
        return [list(self.tasks)[choice % len(self.tasks)] for choice in choices] if self.tasks else []

    @rule(user=SOMEBODY, amount=AMOUNT, reference=st.sampled_from([None, "a", "b"]))
    def grant(self, user: str, amount: int, reference: str | None) -> None:
        before = self.granted.get(reference or "")
        try:
            self.run(give, user, amount, reference)
        except StateConflict:
            assert before not in {None, (user, amount)}
            return
        if before is None:
            self.available[user] += amount
            if reference:
                self.granted[reference] = (user, amount)
        else:
            assert before == (user, amount)

    @rule(user=SOMEBODY, amount=AMOUNT)
    def withdraw(self, user: str, amount: int) -> None:
        def take(tx: Transaction) -> None:
            withdraw(tx, user_id=user, amount=amount, reason="x", made_by="root")

        self.spend(user, amount, take)

    @rule(user=SOMEBODY, amount=st.integers(0, 40))
    def hold(self, user: str, amount: int) -> None:
        task = new_id()
        if self.spend(user, amount, begin, user, amount, task):
            self.tasks[task] = {"user": user, "amount": amount, "state": "open", "refunded": False}

    def spend(self, user: str, amount: int, function: Callable[..., Any], *arguments: Any) -> bool:
        """Take from what is available, or be refused because it is too little."""
        if amount > self.available[user]:
            with pytest.raises(InsufficientCredits) as refused:
                self.run(function, *arguments)
            assert refused.value.facts == {"balance": self.available[user], "price": amount}
            return False
        self.run(function, *arguments)
        self.available[user] -= amount
        return True

    @rule(captured=CHOICES, released=CHOICES)
    def end(self, captured: list[int], released: list[int]) -> None:
        keep = self.pick(captured)
        give_back = [task for task in self.pick(released) if task not in keep]

        def settle(tx: Transaction) -> Any:
            ended = end_holds(tx, capture=keep, release=dict.fromkeys(give_back, "x"))
            for task in ended.captured:
                end_task(tx, task, "completed")
            for task in ended.released:
                end_task(tx, task, "failed")
            return ended

        ended = self.run(settle)
        open_ones = {task for task, facts in self.tasks.items() if facts["state"] == "open"}
        assert sorted(ended.captured) == sorted(open_ones & set(keep))
        assert ended.released == {task: self.tasks[task]["amount"] for task in open_ones & set(give_back)}
        for task in ended.captured:
            self.tasks[task]["state"] = "captured"
        for task, amount in ended.released.items():
            self.tasks[task]["state"] = "released"
            self.available[self.tasks[task]["user"]] += amount

    @rule(choice=st.integers(0, 1000))
    def refund(self, choice: int) -> None:
        for task in self.pick([choice]):
            facts = self.tasks[task]
            allowed = facts["state"] == "captured" and facts["amount"] > 0 and not facts["refunded"]
            try:
                self.run(lambda tx, of=task: refund(tx, task_id=of, made_by="root", reason="x"))
            except StateConflict:
                assert not allowed
                return
            assert allowed
            facts["refunded"] = True
            self.available[facts["user"]] += facts["amount"]

    @invariant()
    def everybody_has_what_they_must(self) -> None:
        entries = self.run(sums)
        for user in USERS:
            mine = [facts for facts in self.tasks.values() if facts["user"] == user]
            held = sum(facts["amount"] for facts in mine if facts["state"] == "open")
            assert self.run(balance, user) == Balance(self.available[user], held)
            assert (entries.get((user, "available"), 0), entries.get((user, "held"), 0)) == (self.available[user], held)
        charged = [one for one in self.tasks.values() if one["state"] == "captured" and not one["refunded"]]
        assert entries.get((None, "earned"), 0) == sum(one["amount"] for one in charged)
        assert sum(entries.values()) == 0

    @invariant()
    def the_audit_finds_nothing(self) -> None:
        assert self.run(audit) == []


def test_anything_in_any_order(sqlite_template: Path, tmp_path: Path) -> None:
    file = tmp_path / "ledger.db"

    class Machine(LedgerMachine):
        def __init__(self) -> None:
            # What is in a ledger stays there: each example begins with a file of its own.
            for old in tmp_path.glob("ledger.db*"):
                old.unlink()
            shutil.copyfile(sqlite_template, file)
            super().__init__(file)

    machine_settings = settings(
        max_examples=tries(10, 25), stateful_step_count=25, suppress_health_check=list(HealthCheck)
    )
    run_state_machine_as_test(Machine, settings=machine_settings)
