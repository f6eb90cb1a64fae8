"""A user's transfers, page by page."""

from __future__ import annotations

from typing import TYPE_CHECKING

from longtake.services.credits import history
from tests.credits.stage import begin, capture, give, release

if TYPE_CHECKING:
    from longtake import Database


def test_transfers_are_listed_newest_first_with_what_they_did(database: Database) -> None:
    database.run_blocking(give, "ada", 100, "payment 1")
    database.run_blocking(give, "bob", 5)
    tasks = [database.run_blocking(begin, "ada", amount) for amount in (30, 20)]
    database.run_blocking(capture, tasks[:1])
    database.run_blocking(release, tasks[1:], "TIMEOUT")
    page = database.run_blocking(history, "ada")
    assert page.next is None
    shown = [(one["kind"], one["available"], one["held"], one["task_id"], one["reason"]) for one in page.transfers]
    assert shown == [
        ("release", 20, -20, tasks[1], "TIMEOUT"),
        ("capture", 0, -30, tasks[0], ""),
        ("hold", -20, 20, tasks[1], ""),
        ("hold", -30, 30, tasks[0], ""),
        ("grant", 100, 0, None, "test"),
    ]
    assert (page.transfers[-1]["reference"], page.transfers[-1]["made_by"]) == ("payment 1", "tester")
    assert sum(one["available"] for one in page.transfers) == 70


def test_pages_follow_each_other_without_gap_or_overlap(database: Database) -> None:
    made = [database.run_blocking(give, "ada", 1 + number).id for number in range(7)]
    seen: list[str] = []
    before, pages = None, 0
    while True:
        page = database.run_blocking(history, "ada", before, 3)
        seen += [one["id"] for one in page.transfers]
        before, pages = page.next, pages + 1
        if before is None:
            break
    assert (seen, pages) == (made[::-1], 3)
    assert database.run_blocking(history, "ada", None, 7).next is None
