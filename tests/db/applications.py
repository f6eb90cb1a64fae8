"""An application that shares the database: it has SQL, what the documents allow it, and nothing of this program."""

from __future__ import annotations

import re
import sqlite3
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psycopg

from longtake import Engine, JobKind, open_database
from longtake.engine.lanes import Lane
from longtake.engine.outcomes import Done
from tests.databases import as_administrator

if TYPE_CHECKING:
    from longtake import Job, Outcome

DOCUMENT = Path(__file__).parent.parent.parent / "docs" / "assets.md"
KINDS = ("assets.mirror", "assets.thumbnail")


class Application:
    """Statements with `?`, each its own transaction, as a role that may what the document grants."""

    def __init__(self, url: str, role: str = "") -> None:
        self.url = url
        self.role = role

    def sql(self, statement: str, *values: Any) -> list[tuple[Any, ...]]:
        """Run one as the application."""
        return _run(
            self.url.replace("longtake_owner@", f"{self.role}@", 1) if self.role else self.url, statement, values
        )

    def owner_sql(self, statement: str, *values: Any) -> list[tuple[Any, ...]]:
        """Run one as whoever owns the database."""
        return _run(self.url, statement, values)

    def insert(self, *, status: str = "completed", url: str | None = "https://example.com/a.mp4", **more: Any) -> str:
        """Write a video's row into assets; return its id."""
        values: dict[str, Any] = {
            "id": str(uuid.uuid4()),
            "user_id": "ada",
            "role": "import",
            "kind": "video",
            "status": status,
        }
        values |= {"source_url": url, **more}
        names, marks = ", ".join(values), ", ".join("?" * len(values))
        self.sql(f"INSERT INTO assets ({names}) VALUES ({marks})", *values.values())
        return str(values["id"])

    def jobs(self, asset_id: str) -> list[str]:
        """Return the kinds of all jobs about an asset."""
        found = self.owner_sql("SELECT kind FROM jobs WHERE subject = ? ORDER BY kind", asset_id)
        return [kind.removeprefix("assets.") for (kind,) in found]

    def end_jobs(self) -> None:
        """Let whatever waits be over."""
        self.owner_sql("DELETE FROM jobs")

    def asset(self, asset_id: str, *columns: str) -> tuple[Any, ...]:
        """Return what a row says."""
        [row] = self.owner_sql(f"SELECT {', '.join(columns)} FROM assets WHERE id = ?", asset_id)
        return row


def _run(url: str, statement: str, values: Sequence[Any]) -> list[tuple[Any, ...]]:
    if not url.startswith("sqlite"):
        with psycopg.connect(url, autocommit=True) as connection:
            cursor = connection.execute(statement.replace("?", "%s").encode(), values or None)
            return cursor.fetchall() if cursor.description else []
    opened = sqlite3.connect(url.removeprefix("sqlite:///"), timeout=10)
    try:
        with opened:
            return opened.execute(statement, values).fetchall()
    finally:
        opened.close()


async def declare_kinds(url: str) -> None:
    """Do what a program does when it starts: say which kinds of jobs there are."""

    async def done(_job: Job) -> Outcome:
        return Done()

    database = open_database(url)
    try:
        await Engine(
            database, [JobKind(name, done, lane=name) for name in KINDS], [Lane(name) for name in KINDS]
        ).start()
    finally:
        database.close()


@contextmanager
def application(url: str) -> Iterator[Application]:
    """An application with the rights that the document gives it."""
    if url.startswith("sqlite"):
        yield Application(url)
        return
    role = f"shop_{uuid.uuid4().hex[:12]}"
    section = DOCUMENT.read_text(encoding="utf-8").split("\n## SQL\n", 1)[1].split("\n### ", 1)[0]
    statements = "".join(re.findall(r"```sql\n(.*?)```", section, flags=re.DOTALL))
    with psycopg.connect(as_administrator(url), autocommit=True) as connection:
        for statement in filter(None, (one.strip() for one in statements.split(";"))):
            connection.execute(re.sub(r"\bshop\b", role, statement).encode())
        try:
            yield Application(url, role)
        finally:
            connection.execute(f"DROP OWNED BY {role}".encode())
            connection.execute(f"DROP ROLE {role}".encode())
