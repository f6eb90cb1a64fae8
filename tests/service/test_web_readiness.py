"""Readiness of a server whose database has the wrong tables."""

from __future__ import annotations

from typing import TYPE_CHECKING

import psycopg

from tests.service.processes import Place

if TYPE_CHECKING:
    from pathlib import Path


def test_tables_that_changed_under_a_server_are_named(tmp_path: Path, postgresql_url: str) -> None:
    with Place(tmp_path, {"LONGTAKE_DATABASE_URL": postgresql_url}).server_here(with_worker=False) as server:
        checks = server.request("GET", "/readyz").json["checks"]
        assert checks["worker"] == "not in this process"
        with psycopg.connect(postgresql_url, autocommit=True) as connection:
            connection.execute("INSERT INTO longtake_migrations VALUES ('credits_9999')")
        answer = server.request("GET", "/readyz")
        assert answer.status == 503
        assert "schema: The database is at migration credits_9999" in answer.json["detail"]
