"""Readiness of real servers whose database goes away and comes back."""

from __future__ import annotations

from typing import TYPE_CHECKING

import psycopg
import psycopg.conninfo
import pytest

from tests.service.processes import Place
from tests.wait import wait_for

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.databases import PostgresqlServer


class Switch:
    """Takes a PostgreSQL database away from everybody, and gives it back."""

    def __init__(self, admin_url: str, name: str) -> None:
        self._admin_url = admin_url
        self._name = name

    def off(self) -> None:
        self._run(f"ALTER DATABASE {self._name} ALLOW_CONNECTIONS false")
        self._run(f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '{self._name}'")

    def on(self) -> None:
        self._run(f"ALTER DATABASE {self._name} ALLOW_CONNECTIONS true")

    def _run(self, statement: str) -> None:
        with psycopg.connect(self._admin_url, autocommit=True) as connection:
            connection.execute(statement)


@pytest.fixture
def switch(postgresql_server: PostgresqlServer, postgresql_url: str) -> Iterator[Switch]:
    switch = Switch(postgresql_server.admin_url(), str(psycopg.conninfo.conninfo_to_dict(postgresql_url)["dbname"]))
    yield switch
    switch.on()


def test_a_server_whose_database_is_gone_is_alive_but_not_ready_until_it_is_back(
    tmp_path: Path, postgresql_url: str, switch: Switch
) -> None:
    with Place(tmp_path, {"LONGTAKE_DATABASE_URL": postgresql_url}).server() as server:
        assert server.request("GET", "/readyz").status == 200
        switch.off()
        answer = wait_for(
            lambda: (found := server.request("GET", "/readyz")).status == 503 and found, "the server to notice"
        )
        assert answer.json["code"] == "NOT_READY"
        assert "database:" in answer.json["detail"]
        assert answer.json["checks"]["database"] != "ok"
        assert server.request("GET", "/healthz").status == 200
        switch.on()
        wait_for(lambda: server.request("GET", "/readyz").status == 200, "the server to be ready again")


def test_an_action_while_the_database_is_gone_says_when_to_come_back(
    tmp_path: Path, postgresql_url: str, switch: Switch
) -> None:
    with Place(tmp_path, {"LONGTAKE_DATABASE_URL": postgresql_url}).server("--no-worker") as server:
        switch.off()
        answer = server.operate("lanes.list")
        assert (answer.status, answer.json["code"]) == (503, "DATABASE_UNAVAILABLE")
        assert answer.headers["retry-after"] == "5"
