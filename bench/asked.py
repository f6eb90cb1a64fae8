"""Times each question about tasks, and says how the database answers it; runs in a child of its own.

A question is asked as the user where a user asks, and timed inside its transaction. The first time is not counted: it
compiles the statement and may find its pages on disk.
"""

import asyncio
import re
import statistics
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench.questions import Question, find_known, of_lists, of_routes, of_the_program

if TYPE_CHECKING:
    from longtake.db import Database, Transaction

TIMES = 20
#: Lines of a plan that say what is read, and how.
READING = re.compile(r"(Scan|SEARCH|SCAN)\b")


def measure(url: str, folder: str) -> dict[str, dict[str, Any]]:
    """Return median and worst of each question in milliseconds, and its plan."""
    return asyncio.run(measure_all(url, folder))


async def measure_all(url: str, folder: str) -> dict[str, dict[str, Any]]:
    from longtake.db import open_database
    from longtake.server.application import Application
    from longtake.settings import Settings

    database = open_database(url)
    try:
        application = Application(Settings(data_dir=Path(folder), database_url=url), database)
        await application.build().start()
        known = await database.read(find_known)
        questions = of_lists(known) | of_routes(application, known) | of_the_program(application, known)
        measured = {name: await measure_one(database, one) for name, one in questions.items()}
        await application.close()
    finally:
        database.close()
    return measured


async def measure_one(database: "Database", one: Question) -> dict[str, Any]:
    call = database.run if one.writes else database.read
    took = [await call(time_one, one, as_user=one.user) for _ in range(TIMES + 1)][1:]
    plan = await call(explain, one, as_user=one.user)
    return {"median": statistics.median(took) * 1000, "worst": max(took) * 1000, "plan": plan}


def time_one(tx: "Transaction", one: Question) -> float:
    begun = time.perf_counter()
    one.ask(tx, *one.arguments)
    return time.perf_counter() - begun


def explain(tx: "Transaction", one: Question) -> list[str]:
    """Ask once more, and return how each statement's rows are found; each way once."""
    from sqlalchemy import event

    from longtake.db import Transaction

    asked: list[tuple[str, Any]] = []

    class Noting(Transaction):
        """Keeps what goes to the driver directly."""

        __slots__ = ()

        def sql(self, statement: str, parameters: Any = ()) -> list[tuple[Any, ...]]:
            asked.append((statement, parameters))
            return super().sql(statement, parameters)

    def note(_connection: Any, _cursor: Any, statement: str, parameters: Any, *_rest: Any) -> None:
        asked.append((statement, parameters))

    event.listen(tx._connection, "before_cursor_execute", note)
    try:
        one.ask(Noting(tx._connection, tx._cursor, tx._signals, tx.user), *one.arguments)
    finally:
        event.remove(tx._connection, "before_cursor_execute", note)
    word, column = ("EXPLAIN QUERY PLAN", 3) if tx.dialect == "sqlite" else ("EXPLAIN", 0)
    lines = [str(row[column]) for statement, values in asked for row in tx.sql(f"{word} {statement}", values)]
    # Without costs and numbers of rows, which say nothing of another database.
    shown = [re.sub(r" *\(cost.*|^[ >-]+|^ *", "", line) for line in lines if READING.search(line)]
    return list(dict.fromkeys(shown))
