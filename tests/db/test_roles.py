"""Roles: made in one command, by whoever may; and a process that does not start as a role which nothing binds."""

from __future__ import annotations

from typing import TYPE_CHECKING

import psycopg
import pytest
from structlog.testing import capture_logs

from longtake import open_database
from longtake.db.errors import DatabaseUnavailable, RightsMissing, RoleTooPowerful
from longtake.db.roles import Found, Wanted, missing_steps, set_up_roles
from longtake.engine.events import append_event, read_events
from longtake.errors import SettingsError
from longtake.server.open_database import migrate_service, open_for_service
from longtake.settings import Settings
from tests.databases import as_administrator
from tests.db.bare_server import BareServer
from tests.engine.stage import until_readable

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.databases import PostgresqlServer

PASSWORD = "a pässword with ' and / and @"
OURS = {"longtake_api", "longtake_engine"}


@pytest.fixture(scope="module")
def server() -> Iterator[BareServer]:
    """The newest version; the proofs do the same on the oldest that is at hand."""
    server = BareServer(18)
    yield server
    server.stop()


@pytest.fixture
def bare(server: BareServer) -> Iterator[BareServer]:
    yield server
    server.clear()


def roles(server: BareServer) -> set[str]:
    return {name for (name,) in server.sql("SELECT rolname FROM pg_roles WHERE rolname NOT LIKE 'pg\\_%'")}


async def assert_bound(url: str) -> None:
    """The role can do the program's work, and shows a user their own rows only."""
    open_for_service(Settings(database_url=url), "test").close()
    database = open_database(url, threads=1)
    try:
        for user in ("ada", "bob"):
            await database.run(lambda tx, name: append_event(tx, "told", user_id=name), user)
        await until_readable(database)
        assert {event.user_id for event in await database.read(read_events)} == {"ada", "bob"}
        assert [event.user_id for event in await database.read(read_events, as_user="ada")] == ["ada"]
    finally:
        database.close()


@pytest.mark.parametrize(("role", "name"), [("longtake", "longtake"), ('o\'Hara "x"; --', "Odd; name")])
async def test_one_command_makes_everything_from_nothing(bare: BareServer, role: str, name: str) -> None:
    url = bare.url(role, PASSWORD, name)
    made = set_up_roles(bare.admin_url, url)
    assert [words.split(" ", 1)[0] for words in made] == ["role", "role", "role", "membership", "database"]
    migrate_service(url)
    await assert_bound(url)
    assert roles(bare) == {"postgres", role} | OURS
    # The password was really set: without it nobody gets in.
    with pytest.raises(psycopg.OperationalError):
        psycopg.connect(bare.url(role, "another", name))
    assert set_up_roles(bare.admin_url, url) == []


async def test_what_is_there_already_is_left_as_it_is(bare: BareServer) -> None:
    """The role of another installation, a database that somebody else made: neither password nor owner change."""
    bare.sql("CREATE ROLE longtake_api NOLOGIN")
    bare.sql("CREATE ROLE longtake LOGIN NOINHERIT PASSWORD 'theirs'")
    bare.sql("CREATE DATABASE shop")
    url = bare.url("longtake", "theirs", "shop")
    made = set_up_roles(bare.admin_url, bare.url("longtake", "ours", "shop"))
    assert [words.split(" ", 1)[0] for words in made] == ["role", "membership", "the"]
    migrate_service(url)
    await assert_bound(url)
    assert bare.sql("SELECT pg_get_userbyid(datdba) FROM pg_database WHERE datname = 'shop'") == [("postgres",)]


async def test_an_administrator_without_superusers_rights_is_enough(bare: BareServer) -> None:
    """As hosted PostgreSQL has them: may make roles and databases, and no more."""
    bare.sql(f"CREATE ROLE hosted LOGIN CREATEROLE CREATEDB PASSWORD '{PASSWORD.replace(chr(39), chr(39) * 2)}'")
    url = bare.url("longtake", PASSWORD)
    set_up_roles(bare.url("hosted", PASSWORD, "postgres"), url)
    migrate_service(url)
    await assert_bound(url)
    # What was lent for making the database is taken back.
    assert bare.sql("SELECT pg_has_role('hosted', 'longtake', 'SET')") == [(False,)]
    assert set_up_roles(bare.url("hosted", PASSWORD, "postgres"), url) == []


async def test_tables_that_a_superuser_made_are_handed_over(bare: BareServer) -> None:
    """Whoever ran everything as the administrator so far has a way out of it, with their rows."""
    bare.sql("CREATE DATABASE longtake")
    migrate_service(bare.url("postgres", database="longtake"))
    bare.sql("CREATE TABLE somebody_elses (x int)", "longtake")
    url = bare.url("longtake", PASSWORD)
    with pytest.raises(RoleTooPowerful):
        open_for_service(Settings(database_url=bare.url("postgres", database="longtake")), "test")
    made = set_up_roles(bare.admin_url, url)
    assert "owner of tasks" in made
    migrate_service(url)
    await assert_bound(url)
    owners = dict(bare.sql("SELECT tablename, tableowner FROM pg_tables WHERE schemaname = 'public'", "longtake"))
    assert owners.pop("somebody_elses") == "postgres"
    assert set(owners.values()) == {"longtake"}


def test_rights_that_end_half_way_give_the_rest_as_sql(bare: BareServer) -> None:
    bare.sql("CREATE ROLE clerk LOGIN CREATEROLE PASSWORD 'x'")
    with pytest.raises(RightsMissing, match="permission denied to create database") as raised:
        set_up_roles(bare.url("clerk", "x", "postgres"), bare.url("longtake", PASSWORD))
    assert "CREATE DATABASE" in raised.value.hint
    assert "CREATE ROLE" not in raised.value.hint
    assert PASSWORD not in raised.value.hint
    bare.sql('CREATE DATABASE "longtake" OWNER "longtake"')
    assert set_up_roles(bare.url("clerk", "x", "postgres"), bare.url("longtake", PASSWORD)) == []


@pytest.mark.parametrize("attribute", ["SUPERUSER", "BYPASSRLS"])
@pytest.mark.parametrize("role", ["longtake", "longtake_api"])
def test_a_role_that_nothing_binds_is_not_set_up(bare: BareServer, attribute: str, role: str) -> None:
    bare.sql(f"CREATE ROLE {role} {attribute}")
    with pytest.raises(RoleTooPowerful, match=role) as raised:
        set_up_roles(bare.admin_url, bare.url("longtake", PASSWORD))
    assert f'ALTER ROLE "{role}" NOSUPERUSER NOBYPASSRLS' in raised.value.hint
    assert roles(bare) == {"postgres", role}


def test_an_administrator_who_cannot_be_reached_is_told_what_to_run_by_hand(bare: BareServer) -> None:
    bare.sql("CREATE ROLE locked LOGIN SUPERUSER PASSWORD 'x'")
    for admin_url in (bare.url("locked", "wrong", "postgres"), "postgresql://postgres@127.0.0.1:9/postgres"):
        with pytest.raises(DatabaseUnavailable, match="administrator") as raised:
            set_up_roles(admin_url, bare.url("longtake", PASSWORD, "media"))
        assert 'CREATE ROLE "longtake" LOGIN PASSWORD' in raised.value.hint
        assert 'CREATE DATABASE "media" OWNER "longtake"' in raised.value.hint
        assert PASSWORD not in raised.value.hint + raised.value.message


@pytest.mark.parametrize("url", ["postgresql:///longtake", "postgresql://longtake_api@localhost/x", "sqlite:///x.db"])
def test_an_address_that_names_no_role_of_its_own_is_refused(url: str) -> None:
    with pytest.raises(SettingsError):
        set_up_roles("postgresql://postgres@127.0.0.1:9/postgres", url)


def test_the_password_does_not_reach_the_servers_log(bare: BareServer) -> None:
    bare.sql("CREATE ROLE watched LOGIN SUPERUSER PASSWORD 'x'")
    bare.sql("ALTER ROLE watched SET log_statement = 'all'")
    set_up_roles(bare.url("watched", "x", "postgres"), bare.url("longtake", "plain-password"))
    [(kept,)] = bare.sql("SELECT rolpassword FROM pg_authid WHERE rolname = 'longtake'")
    assert kept.startswith("SCRAM-SHA-256$")
    log = (bare.folder / "data" / "log").read_text(encoding="utf-8")
    assert "SCRAM-SHA-256$" in log
    assert "plain-password" not in log


@pytest.mark.parametrize(
    ("version", "grant"),
    [
        (140_000, ['GRANT longtake_api, longtake_engine TO "a";', 'ALTER ROLE "a" INHERIT;']),
        (150_000, ['GRANT longtake_api, longtake_engine TO "a";', 'ALTER ROLE "a" INHERIT;']),
        (160_000, ['GRANT longtake_api, longtake_engine TO "a" WITH INHERIT TRUE, SET TRUE;']),
        (180_000, ['GRANT longtake_api, longtake_engine TO "a" WITH INHERIT TRUE, SET TRUE;']),
    ],
)
def test_each_version_gets_the_words_it_understands(version: int, grant: list[str]) -> None:
    found = Found(server_version=version, roles=frozenset({*OURS, "a"}), database_owner="a")
    assert [step.statement for step in missing_steps(found, Wanted("a", "a"))] == grant


@pytest.mark.parametrize("attribute", ["SUPERUSER", "BYPASSRLS"])
def test_a_process_refuses_to_start_as_a_role_that_nothing_binds(
    postgresql_server: PostgresqlServer, postgresql_url: str, attribute: str
) -> None:
    name = f"mighty_{attribute.lower()}"
    postgresql_server._sql(f"CREATE ROLE {name} LOGIN {attribute} IN ROLE longtake_api, longtake_engine")
    url = postgresql_url.replace("longtake_owner@", f"{name}@", 1)
    try:
        with pytest.raises(RoleTooPowerful, match=name) as raised:
            open_for_service(Settings(database_url=url), "test")
        assert "migrate up --admin-url" in raised.value.hint
        with capture_logs() as lines:
            open_for_service(Settings(database_url=url, allow_superuser=True), "test").close()
        assert [(line["log_level"], line["code"]) for line in lines] == [("warning", "ROLE_TOO_POWERFUL")]
    finally:
        postgresql_server._sql(f"DROP ROLE {name}")


def test_nor_as_a_superuser_that_put_on_a_plain_role(bare: BareServer) -> None:
    """Who logged in counts as well: a role that was taken on can be put down again."""
    set_up_roles(bare.admin_url, bare.url("longtake", PASSWORD))
    migrate_service(bare.url("longtake", PASSWORD))
    bare.sql("CREATE ROLE disguised LOGIN SUPERUSER PASSWORD 'x'")
    bare.sql("ALTER ROLE disguised SET role = longtake")
    with pytest.raises(RoleTooPowerful, match="disguised"):
        open_for_service(Settings(database_url=bare.url("disguised", "x", "longtake")), "test")


@pytest.mark.parametrize(
    ("grant", "missing"),
    [
        ("GRANT longtake_api TO halfway WITH SET FALSE", "take on longtake_api"),
        ("GRANT longtake_api, longtake_engine TO halfway WITH INHERIT FALSE, SET TRUE", "rights of longtake_engine"),
    ],
)
def test_a_member_that_may_not_take_the_role_on_is_told_so(
    postgresql_server: PostgresqlServer, postgresql_url: str, grant: str, missing: str
) -> None:
    """From PostgreSQL 16 on these are different rights; without the check every request of a user would fail."""
    postgresql_server._sql("CREATE ROLE halfway LOGIN IN ROLE longtake_engine")
    settings = Settings(database_url=postgresql_url.replace("longtake_owner@", "halfway@", 1))
    try:
        postgresql_server._sql(grant)
        with pytest.raises(RightsMissing, match=missing) as raised:
            open_for_service(settings, "test")
        assert 'TO "halfway" WITH INHERIT TRUE, SET TRUE;' in raised.value.hint
        # What the hint says is what helps.
        postgresql_server._sql(raised.value.hint.split(":", 1)[1])
        open_for_service(settings, "test").close()
    finally:
        postgresql_server._sql("DROP ROLE halfway")


def test_the_tests_themselves_run_as_a_role_that_is_bound(postgresql_url: str) -> None:
    open_for_service(Settings(database_url=postgresql_url), "test").close()
    with pytest.raises(RoleTooPowerful):
        open_for_service(Settings(database_url=as_administrator(postgresql_url)), "test")
