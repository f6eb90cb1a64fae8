"""`longtake credits …`, on the file itself and through a server that owns it."""

from __future__ import annotations

import sqlite3
from typing import TYPE_CHECKING

import pytest

from longtake import open_database
from longtake.server.open_database import migrate_service
from tests.credits.stage import begin, capture, end_task, give

if TYPE_CHECKING:
    from pathlib import Path

    from tests.service.conftest import Commands
    from tests.service.processes import Place


@pytest.fixture
def path(place: Place) -> Path:
    """A database with all tables, unowned."""
    place.data.mkdir()
    migrate_service(f"sqlite:///{place.data}/longtake.db")
    return place.data / "longtake.db"


def test_credits_are_granted_shown_and_withdrawn(commands: Commands, place: Place, path: Path) -> None:
    longtake = commands.at(place)
    granted = longtake("credits", "grant", "ada", "1500", "--reason", "October", "--reference", "p1", "--by", "root")
    assert granted.code == 0
    assert "ada has 1,500 credits" in granted.output
    again = longtake("credits", "grant", "ada", "1500", "--reason", "October", "--reference", "p1", "--json")
    assert again.json["balance"] == {"available": 1500, "held": 0}
    assert longtake("credits", "withdraw", "ada", "500", "--reason", "mistake").code == 0
    assert longtake("credits", "balance", "ada", "--json").json == {"user_id": "ada", "available": 1000, "held": 0}
    told = f"ada has 1,000 credits, and unfinished tasks hold 0 more (in {place.data}).\n"
    assert longtake("credits", "balance", "ada").output == told
    shown = longtake("credits", "history", "ada")
    assert ["-500" in shown.output, "+1,500" in shown.output, "root" in shown.output] == [True] * 3
    first = longtake("credits", "history", "ada", "--limit", "1")
    assert first.errors.startswith("There are more: add --before ")
    refused = longtake("credits", "withdraw", "ada", "1001", "--reason", "more")
    assert (refused.code, "[INSUFFICIENT_CREDITS]" in refused.errors) == (1, True)


def test_a_wrong_amount_is_bad_usage(commands: Commands, place: Place, path: Path) -> None:
    for amount in ("0", "1.5", "many", str(10**12 + 1)):
        assert commands.at(place)("credits", "grant", "ada", amount, "--reason", "x").code == 2


def test_a_charged_task_is_refunded_once_and_the_audit_agrees(commands: Commands, place: Place, path: Path) -> None:
    database = open_database(f"sqlite:///{path}")
    database.run_blocking(give, "ada", 100)
    task = database.run_blocking(begin, "ada", 30)
    database.run_blocking(capture, [task])
    database.run_blocking(end_task, task, "completed")
    database.close()
    longtake = commands.at(place)
    refunded = longtake("credits", "refund", task, "--reason", "unusable")
    assert (refunded.code, "ada has 100 credits" in refunded.output) == (0, True)
    assert longtake("credits", "refund", task, "--reason", "unusable").code == 1
    agreed = longtake("credits", "audit")
    assert (agreed.code, "agree" in agreed.output) == (0, True)


def test_an_audit_that_finds_something_ends_with_1(commands: Commands, place: Place, path: Path) -> None:
    longtake = commands.at(place)
    longtake("credits", "grant", "ada", "10", "--reason", "x")
    with sqlite3.connect(path) as connection:
        connection.execute("UPDATE credit_balances SET available = 11")
    connection.close()
    found = longtake("credits", "audit")
    assert (found.code, "BALANCE_WRONG" in found.output, "ada" in found.output) == (1, True, True)
    listed = longtake("credits", "audit", "--json")
    assert (listed.code, [one["code"] for one in listed.json["findings"]]) == (1, ["BALANCE_WRONG"])


def test_the_commands_work_through_a_server(commands: Commands, place: Place) -> None:
    longtake = commands.at(place)
    with place.server_here():
        assert longtake("credits", "grant", "ada", "100", "--reason", "October").code == 0
        assert longtake("credits", "balance", "ada", "--json").json["available"] == 100
        refused = longtake("credits", "withdraw", "ada", "101", "--reason", "x")
        assert (refused.code, "[INSUFFICIENT_CREDITS]" in refused.errors) == (1, True)
        assert longtake("credits", "audit").code == 0
