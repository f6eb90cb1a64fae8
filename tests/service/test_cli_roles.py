"""Roles from the command line: one command from an empty server to one that serves, and what is refused."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.databases import as_administrator
from tests.db.bare_server import BareServer
from tests.service.processes import Place

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.service.conftest import Commands

PASSWORD = "pass-word"


@pytest.fixture(scope="module")
def server() -> Iterator[BareServer]:
    server = BareServer()
    yield server
    server.stop()


@pytest.fixture
def bare(server: BareServer) -> Iterator[BareServer]:
    yield server
    server.clear()


@pytest.mark.parametrize("by_environment", [True, False])
def test_from_an_empty_server_to_one_that_serves(
    commands: Commands, tmp_path: Path, bare: BareServer, by_environment: bool
) -> None:
    place = Place(tmp_path, {"LONGTAKE_DATABASE_URL": bare.url("longtake", PASSWORD)})
    options = ["--admin-url", bare.admin_url]
    if by_environment:
        place.settings["LONGTAKE_ADMIN_URL"] = bare.admin_url
        options = []
    made = commands.at(place)("migrate", "up", *options)
    assert (made.code, made.errors) == (0, "")
    for words in ("role longtake_api", "role longtake_engine", "role longtake", "database longtake"):
        assert f"Made: {words}.\n" in made.output
    assert PASSWORD not in made.output
    again = commands("migrate", "up", *options, "--json")
    assert (again.code, again.json["up_to_date"], "made" in again.json) == (0, True, False)
    with place.server_here(with_worker=False) as running:
        assert running.request("GET", "/readyz").status == 200


def test_a_missing_administrator_is_no_obstacle_where_nothing_is_missing(
    commands: Commands, tmp_path: Path, postgresql_url: str
) -> None:
    longtake = commands.at(Place(tmp_path, {"LONGTAKE_DATABASE_URL": postgresql_url}))
    assert longtake("migrate", "up").code == 0


@pytest.mark.parametrize("admin_url", ["sqlite:///x.db", "mysql://x", f"postgresql://me:{PASSWORD}@h:port/x"])
def test_an_address_of_no_administrator_is_refused_without_repeating_it(
    commands: Commands, tmp_path: Path, admin_url: str
) -> None:
    refused = commands.at(Place(tmp_path))("migrate", "up", "--admin-url", admin_url)
    assert refused.code == 2
    assert PASSWORD not in refused.errors


def test_an_administrator_who_is_not_let_in_gets_the_sql(commands: Commands, tmp_path: Path, bare: BareServer) -> None:
    place = Place(tmp_path, {"LONGTAKE_DATABASE_URL": bare.url("longtake", PASSWORD)})
    refused = commands.at(place)("migrate", "up", "--admin-url", bare.url("nobody", "wrong", "postgres"))
    assert (refused.code, "[DATABASE_UNAVAILABLE]" in refused.errors) == (3, True)
    assert 'CREATE DATABASE "longtake" OWNER "longtake";' in refused.errors
    assert PASSWORD not in refused.errors


def test_a_role_that_is_not_there_is_said_with_what_makes_it(
    commands: Commands, tmp_path: Path, bare: BareServer
) -> None:
    place = Place(tmp_path, {"LONGTAKE_DATABASE_URL": bare.url("longtake", PASSWORD)})
    for arguments in (("migrate", "up"), ("jobs", "list")):
        refused = commands.at(place)(*arguments)
        assert (refused.code, "[DATABASE_REFUSED]" in refused.errors) == (2, True), refused.errors
        assert "'longtake'" in refused.errors
        assert "cannot be reached" not in refused.errors
        # A server that asks for passwords does not say whether the role is there.
        assert "LONGTAKE_ADMIN_URL=" in refused.errors
        assert "--admin-url" in refused.errors


@pytest.mark.parametrize("command", ["serve", "worker"])
def test_a_superuser_is_refused_with_what_to_do(
    commands: Commands, tmp_path: Path, postgresql_url: str, command: str
) -> None:
    place = Place(tmp_path, {"LONGTAKE_DATABASE_URL": as_administrator(postgresql_url)})
    refused = commands.at(place)(command)
    assert refused.code == 2
    assert "[ROLE_TOO_POWERFUL]" in refused.errors
    assert "'postgres'" in refused.errors
    assert "longtake migrate up --admin-url" in refused.errors


def test_a_superuser_may_be_allowed_and_is_warned(tmp_path: Path, postgresql_url: str) -> None:
    settings = {"LONGTAKE_DATABASE_URL": as_administrator(postgresql_url), "LONGTAKE_ALLOW_SUPERUSER": "true"}
    with Place(tmp_path, settings).server_here(with_worker=False) as running:
        assert running.request("GET", "/readyz").status == 200
        assert '"code":"ROLE_TOO_POWERFUL"' in running.log.read_text().replace('": "', '":"')
