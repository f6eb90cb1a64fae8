"""What is asked again and again is read by an index. SQLite's plans do not depend on how many rows there are."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from sqlalchemy import event

from longtake import Engine, open_database
from longtake.generation.queries import Filter, list_tasks, unfinished_tasks
from longtake.generation.submissions import _running
from longtake.generation.sweeping import end_overdue

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from longtake import Database, Transaction

ID = "019a8f6e-5d0c-7c41-9f53-0f6d1f2b7a10"

QUESTIONS: dict[str, tuple[Callable[..., Any], tuple[Any, ...], str]] = {
    "unfinished": (unfinished_tasks, ("ada",), "tasks_unfinished (user_id=?)"),
    "running": (_running, (("kie", "kie_veo"),), "tasks_running (provider=?)"),
    "all": (list_tasks, ("ada", Filter(), ID, 50), "tasks_user (user_id=? AND id<?)"),
    "status": (list_tasks, ("ada", Filter(("failed",)), ID, 50), "tasks_user_status (user_id=? AND status=? AND id<?)"),
    "type": (list_tasks, ("ada", Filter(type="video"), ID, 50), "tasks_user_type (user_id=? AND type=? AND id<?)"),
    "model": (list_tasks, ("ada", Filter(model="fox"), ID, 50), "tasks_user_model (user_id=? AND model=? AND id<?)"),
    "conversation": (
        list_tasks,
        ("ada", Filter(conversation_id=ID), ID, 50),
        "tasks_conversation (conversation_id=? AND id<?)",
    ),
    "conversation and more": (
        list_tasks,
        ("ada", Filter(("failed",), "video", "fox", ID), ID, 50),
        "tasks_conversation (conversation_id=? AND id<?)",
    ),
    "several": (
        list_tasks,
        ("ada", Filter(("failed", "cancelled")), ID, 50),
        "tasks_user_status (user_id=? AND status=? AND id<?)",
    ),
}


def plans_of(tx: Transaction, ask: Callable[..., Any], *arguments: Any) -> list[str]:
    """Ask, and return the plans of all statements that were needed."""
    seen: list[tuple[str, Any]] = []

    def note(_connection: Any, _cursor: Any, statement: str, parameters: Any, *_rest: Any) -> None:
        seen.append((statement, parameters))

    event.listen(tx._connection, "before_cursor_execute", note)
    try:
        ask(tx, *arguments)
    finally:
        event.remove(tx._connection, "before_cursor_execute", note)
    return [row[3] for statement, values in seen for row in tx.sql(f"EXPLAIN QUERY PLAN {statement}", values)]


@pytest.fixture
def opened(sqlite_url: str) -> Iterator[Database]:
    database = open_database(sqlite_url)
    yield database
    database.close()


@pytest.mark.parametrize("question", QUESTIONS)
async def test_no_question_reads_more_than_its_answer(opened: Database, question: str) -> None:
    ask, arguments, index = QUESTIONS[question]
    plans = await opened.run(plans_of, ask, *arguments)
    assert any(index in one for one in plans), plans
    assert "SCAN tasks" not in plans
    # Several statuses are put in order at the end: a few rows of each.
    assert question == "several" or not any("TEMP B-TREE" in one for one in plans), plans


async def test_a_sweep_reads_only_what_is_overdue(opened: Database) -> None:
    plans = await opened.run(plans_of, end_overdue, Engine(opened))
    assert plans == ["SEARCH tasks USING INDEX tasks_deadline (deadline_at<?)"]
