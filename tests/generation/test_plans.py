"""What is asked again and again is read by an index.

SQLite's plans do not depend on how many rows there are; PostgreSQL is asked about tables with many.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import psycopg
import pytest
from sqlalchemy import event

from longtake import open_database
from longtake.capabilities.generation.deadlines import end_overdue
from longtake.capabilities.generation.health import _poll_delay, _unfinished, generation_figures, read_unpolled
from longtake.capabilities.generation.outlook import NO_OUTLOOK, _read_jobs, read_queues
from longtake.capabilities.generation.routes import ENDED, RECENT
from longtake.capabilities.generation.service import _submit
from longtake.capabilities.generation.submissions import RunningLimit, check_request, is_full
from longtake.capabilities.generation.tables import TaskFilter, list_tasks, unfinished_tasks
from longtake.capabilities.generation.tasks import NewTask, TaskLimits
from longtake.db import planned_once
from longtake.http.idempotency import keyed
from longtake.services.conversations.store import count_unread, list_conversations

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from longtake import Database, Transaction
    from tests.databases import PostgresqlServer
    from tests.generation.studio import Studio

USER = "ada"
ID = "019a8f6e-5d0c-7c41-9f53-0f6d1f2b7a10"

QUESTIONS: dict[str, tuple[Callable[..., Any], tuple[Any, ...], str]] = {
    "unfinished": (unfinished_tasks, ("ada",), "tasks_unfinished (user_id=?)"),
    "running": (is_full, (RunningLimit(("kie", "kie_veo"), 5),), "tasks_running (provider=?)"),
    "all": (list_tasks, ("ada", TaskFilter(), ID, 50), "tasks_user_status (user_id=? AND status=? AND id<?)"),
    "status": (
        list_tasks,
        ("ada", TaskFilter(("failed",)), ID, 50),
        "tasks_user_status (user_id=? AND status=? AND id<?)",
    ),
    "type": (list_tasks, ("ada", TaskFilter(type="video"), ID, 50), "tasks_user_type (user_id=? AND type=? AND id<?)"),
    "model": (
        list_tasks,
        ("ada", TaskFilter(model="fox"), ID, 50),
        "tasks_user_model (user_id=? AND model=? AND id<?)",
    ),
    "conversation": (
        list_tasks,
        ("ada", TaskFilter(conversation_id=ID), ID, 50),
        "tasks_conversation (conversation_id=? AND id<?)",
    ),
    "conversation and more": (
        list_tasks,
        ("ada", TaskFilter(("failed",), "video", "fox", ID), ID, 50),
        "tasks_conversation (conversation_id=? AND id<?)",
    ),
    "several": (
        list_tasks,
        ("ada", TaskFilter(("failed", "cancelled")), ID, 50),
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
    explain, column = ("EXPLAIN QUERY PLAN", 3) if tx.dialect == "sqlite" else ("EXPLAIN", 0)
    return [row[column] for statement, values in seen for row in tx.sql(f"{explain} {statement}", values)]


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
    plans = await opened.run(plans_of, end_overdue)
    assert plans == ["SEARCH tasks USING INDEX tasks_deadline (deadline_at<?)"]


async def test_a_snapshot_reads_only_what_it_shows(opened: Database) -> None:
    plans = await opened.run(plans_of, list_tasks, "ada", ENDED, None, RECENT)
    assert plans.count("SEARCH tasks USING COVERING INDEX tasks_user_status (user_id=? AND status=?)") == 3
    plans = await opened.run(plans_of, count_unread, "ada")
    assert plans == ["SEARCH conversations USING COVERING INDEX conversations_unread (user_id=? AND unread>?)"]
    plans = await opened.run(plans_of, read_queues, ["kie.submit"])
    assert plans == ["SEARCH jobs USING INDEX jobs_ready (lane=? AND kind=?)"]
    plans = await opened.run(plans_of, _read_jobs, [ID], frozenset())
    assert "SEARCH jobs USING INDEX jobs_key (kind=? AND key=?)" in plans


async def test_figures_read_an_index_that_has_all_they_need(opened: Database) -> None:
    plans = await opened.run(plans_of, generation_figures, 24.0)
    assert "SEARCH tasks USING COVERING INDEX tasks_ended (ended_at>?)" in plans
    # Each of these indexes holds unfinished tasks only; any other has all that ever were.
    scans = [one for one in plans if one.startswith("SCAN tasks")]
    assert {index_of(one) for one in scans} == {"tasks_running", "tasks_deadline"}, plans
    assert len(scans) == 3


def index_of(plan: str) -> str:
    """Return which index of tasks a line of a plan reads; nothing where it is the table itself."""
    found = re.search(r"\btasks_[a-z_]+", plan)
    return found[0] if found else ""


async def test_postgresqls_figures_read_only_small_indexes(crowded_url: str) -> None:
    database = open_database(crowded_url)
    try:
        plans = await database.read(plans_of, generation_figures, 24.0)
    finally:
        database.close()
    scans = [line for line in plans if "Scan" in line and ("tasks" in line or "Heap" in line)]
    assert {index_of(line) for line in scans} == {"tasks_ended", "tasks_running", "tasks_deadline"}, plans


def _read_unasked(tx: Transaction) -> None:
    read_unpolled(tx, {})


async def test_the_check_of_running_tasks_reads_only_those(opened: Database) -> None:
    plans = await opened.run(plans_of, _read_unasked)
    assert {index_of(one) for one in plans if "tasks" in one} == {"tasks_running"}, plans


@pytest.mark.parametrize(
    ("ask", "indexes"),
    [
        (_poll_delay, {"tasks_running"}),
        (_unfinished, {"tasks_running", "tasks_deadline"}),
        (_read_unasked, {"tasks_running"}),
    ],
)
async def test_each_figure_reads_the_same_index_also_when_it_is_asked_by_itself(
    crowded_url: str, ask: Callable[[Transaction], Any], indexes: set[str]
) -> None:
    """What waits is in the order of the table, so that reading all of it looks cheap to PostgreSQL."""
    database = open_database(crowded_url)
    try:
        plans = await database.read(plans_of, ask)
    finally:
        database.close()
    scans = [line for line in plans if "Scan" in line and ("tasks" in line or "Heap" in line)]
    assert {index_of(line) for line in scans} == indexes, plans
    assert not any("Sort" in line for line in plans), plans


CROWD = """
INSERT INTO credit_balances (user_id, available) SELECT 'user' || number, 5 FROM generate_series(1, 20000) AS number;
INSERT INTO idempotency_keys (user_id, route, key, fingerprint, status, answer)
SELECT 'user' || number, 'images/generate', 'first', '', 202, '{}' FROM generate_series(1, 20000) AS number;
ANALYZE credit_balances; ANALYZE idempotency_keys;
-- Empty, and known to be.
ANALYZE jobs; ANALYZE tasks; ANALYZE messages
"""


@pytest.mark.parametrize("database_url", ["postgresql"], indirect=True)
async def test_a_submits_plans_are_made_once_and_read_no_table_from_end_to_end(studio: Studio) -> None:
    model = studio.generation.offered.models["nano-banana"]
    database, limits = studio.database, TaskLimits(unfinished=100, queue_seconds=60)
    for statement in CROWD.split(";"):
        database.run_blocking(plain_sql, statement)
    # The driver prepares a statement when it has seen it a few times.
    for number in range(10):
        new = NewTask(USER, check_request(model, "fox", {}, [], None), "default", None)
        key = keyed(USER, "images/generate", f"key {number}", {})
        database.run_blocking(_submit, studio.engine, new, limits, key, NO_OUTLOOK)
    prepared = database.run_blocking(plain_sql, PREPARED)
    assert {made for _statement, made, _again in prepared} != {0}
    assert not [statement for statement, made, again in prepared if made and again], prepared
    kept = [statement for statement, made, _again in prepared if made]
    assert len(kept) == 8
    plans = [row[0] for one in kept for row in database.run_blocking(kept_plan, one)]
    scans = {line.split(" on ")[1].split(" ")[0] for line in plans if "Seq Scan on" in line}
    assert scans <= {"test_clock"}, plans
    assert any("credit_balances_pkey" in line for line in plans), plans
    assert any("idempotency_keys_pkey" in line for line in plans), plans


def plain_sql(tx: Transaction, statement: str) -> list[tuple[Any, ...]]:
    return tx.sql(statement)


@planned_once
def kept_plan(tx: Transaction, statement: str) -> list[tuple[Any, ...]]:
    """Return the plan, made with the settings of functions whose plans are kept."""
    return tx.sql(f"EXPLAIN (GENERIC_PLAN) {statement}")


PREPARED = "SELECT statement, generic_plans, custom_plans FROM pg_prepared_statements"

FILL = """
INSERT INTO tasks (user_id, type, model, provider, prompt, parameters, price, credits_held, reference, status,
                   started_at, deadline_at, ended_at)
SELECT 'user' || number % 50, 'image', 'nano-banana', 'kie' || number % 7, 'a fox', '{}', 4, 4, number,
       CASE WHEN number > 19900 THEN 'running' WHEN number > 15000 THEN 'pending' ELSE 'completed' END,
       pg_catalog.now(), pg_catalog.now() + make_interval(secs => number),
       CASE WHEN number > 15000 THEN NULL ELSE pg_catalog.now() - make_interval(mins => number) END
FROM generate_series(1, 20000) AS number;
INSERT INTO conversations (user_id, unread)
SELECT 'user' || number % 5, CASE WHEN number % 100 = 0 THEN 1 ELSE 0 END FROM generate_series(1, 20000) AS number;
INSERT INTO jobs (kind, key, lane) SELECT 'generation.submit', number::text, 'kie.submit'
FROM generate_series(1, 20000) AS number;
ANALYZE tasks; ANALYZE conversations; ANALYZE jobs;
"""


@pytest.fixture(scope="module")
def crowded_url(postgresql_server: PostgresqlServer) -> Iterator[str]:
    """Many rows of many users, as PostgreSQL knows from its statistics."""
    url = postgresql_server.new_database()
    with psycopg.connect(url, autocommit=True) as connection:
        # Whoever fills it is the program: users' rows are not its owner's.
        connection.execute("SET ROLE longtake_engine")
        for statement in FILL.split(";\n"):
            if statement.startswith("ANALYZE"):
                connection.execute("RESET ROLE")
            connection.execute(statement.encode())
    yield url
    postgresql_server.drop_database(url)


@pytest.mark.parametrize(
    ("ask", "arguments", "user", "index"),
    [
        (unfinished_tasks, ("user7",), "user7", "tasks_unfinished"),
        (list_tasks, ("user7", ENDED, None, RECENT), "user7", "tasks_user_status"),
        (list_conversations, ("user1",), "user1", "conversations_user"),
        (count_unread, ("user1",), "user1", "conversations_unread"),
        (read_queues, (["kie.submit"],), None, "jobs_ready"),
        (_read_jobs, ([ID, "7"], frozenset()), None, "jobs_key"),
        (generation_figures, (24.0,), None, "Index Only Scan Backward using tasks_ended"),
        (generation_figures, (24.0,), None, "tasks_running"),
    ],
)
async def test_postgresql_reads_no_table_from_end_to_end(
    crowded_url: str, ask: Callable[..., Any], arguments: tuple[Any, ...], user: str | None, index: str
) -> None:
    database = open_database(crowded_url)
    try:
        plans = await database.read(plans_of, ask, *arguments, as_user=user)
    finally:
        database.close()
    scans = {line.split(" on ")[1].split(" ")[0] for line in plans if "Seq Scan on" in line}
    assert scans <= {"test_clock"}, plans
    assert any(index in line for line in plans), plans
