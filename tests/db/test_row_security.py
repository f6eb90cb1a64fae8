"""Row level security as the migrated database has it: no table may be forgotten, and no connection keeps a user."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import psycopg
import pytest
from sqlalchemy import text

from longtake import open_database
from longtake.db.errors import RightsMissing
from longtake.engine.events import append_event
from tests.db.test_reruns import end_connection, own_process

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from longtake import Database, Transaction

#: Tables without rows of users, each with its reason; whatever is not here has to be bound.
OF_NO_USER = {
    "alerts": "for operators",
    "asset_facts": "what addresses of our own files begin with: one row for all",
    "events_forgotten": "how far back events are kept: one row for all",
    "job_attempts": "jobs are the program's; what a user may know of them stands in tasks and events",
    "job_kinds": "declared by the program",
    "jobs": "as job_attempts",
    "jobs_ended": "as job_attempts",
    "lanes": "limits of providers",
    "longtake_migrations": "which migrations have run",
    "schedules": "declared by the program",
    "secrets": "sealed, and the program's own",
    "posters": "pictures of titles, for everybody",
    "submissions": "what was sent to providers on whose account; the user's side of it is the task",
    "test_clock": "of these tests",
    "titles": "the catalogue is one for all, and its routes need no user's rows",
    "tmdb_shows": "what TMDB has",
    "tmdb_years": "as tmdb_shows",
    "webhook_cursor": "how far deliveries have come: one row for all",
    "workers": "processes",
}
#: Of those, what a user's request may read.
READABLE_BY_ALL = {"events_forgotten"}
OWN = "(user_id = NULLIF(current_setting('longtake.user'::text, true), ''::text))"
TABLES = """
SELECT relname, relrowsecurity AND relforcerowsecurity,
    (SELECT coalesce(array_agg(privilege_type), '{}') FROM aclexplode(relacl) WHERE grantee = 'longtake_api'::regrole)
FROM pg_class WHERE relnamespace = 'public'::regnamespace AND relkind IN ('r', 'p')
"""
POLICIES = """
SELECT polname, polcmd::text, polpermissive, polroles::regrole[]::text[], pg_get_expr(polqual, polrelid),
    pg_get_expr(polwithcheck, polrelid)
FROM pg_policy WHERE polrelid = to_regclass(%s) ORDER BY polname
"""


@pytest.fixture
def catalogue(postgresql_url: str) -> Iterator[psycopg.Connection[Any]]:
    with psycopg.connect(postgresql_url, autocommit=True) as connection:
        yield connection


def tables(catalogue: psycopg.Connection[Any]) -> dict[str, tuple[bool, list[str]]]:
    return {name: (bound, rights) for name, bound, rights in catalogue.execute(TABLES)}


def unbound(catalogue: psycopg.Connection[Any]) -> set[str]:
    """Return the tables that are neither excused nor bound in exactly our way."""
    found = set()
    for name, (bound, rights) in tables(catalogue).items():
        policies = catalogue.execute(POLICIES, (f"public.{name}",)).fetchall()
        if name in OF_NO_USER:
            allowed = ["SELECT"] if name in READABLE_BY_ALL else []
            in_order = rights == allowed and not policies
        else:
            ours = [
                (f"{name}_engine", "*", True, ["longtake_engine"], "true", "true"),
                (f"{name}_own", "r", True, ["longtake_api"], OWN, None),
            ]
            in_order = bound and rights == ["SELECT"] and policies == ours
        if not in_order:
            found.add(name)
    return found


def test_every_table_with_rows_of_users_is_bound(catalogue: psycopg.Connection[Any]) -> None:
    assert unbound(catalogue) == set()
    assert set(OF_NO_USER) <= set(tables(catalogue))


LOOSENED = [
    ("CREATE TABLE forgotten (user_id text)", "forgotten"),
    ("ALTER TABLE tasks NO FORCE ROW LEVEL SECURITY", "tasks"),
    ("ALTER TABLE tasks DISABLE ROW LEVEL SECURITY", "tasks"),
    ("CREATE POLICY more ON tasks TO PUBLIC USING (true)", "tasks"),
    ("GRANT INSERT ON messages TO longtake_api", "messages"),
    ("GRANT SELECT ON secrets TO longtake_api", "secrets"),
]


def test_a_table_that_is_not_bound_would_be_noticed(catalogue: psycopg.Connection[Any]) -> None:
    for statement, name in LOOSENED:
        with catalogue.transaction(force_rollback=True):
            catalogue.execute(statement.encode())
            assert unbound(catalogue) == {name}, statement
    assert unbound(catalogue) == set()


def test_no_table_without_users_has_a_column_for_them(catalogue: psycopg.Connection[Any]) -> None:
    query = (
        "SELECT table_name FROM information_schema.columns WHERE table_schema = 'public' AND column_name = 'user_id'"
    )
    assert not {name for (name,) in catalogue.execute(query)} & set(OF_NO_USER)


def test_every_view_asks_as_its_reader(catalogue: psycopg.Connection[Any]) -> None:
    """A view reads as its owner unless told otherwise, and would show everybody everything."""
    query = (
        "SELECT relname FROM pg_class WHERE relnamespace = 'public'::regnamespace AND (relkind = 'm' OR relkind = 'v'"
        " AND NOT coalesce(reloptions @> '{security_invoker=true}', false))"
    )
    assert catalogue.execute(query).fetchall() == []
    with catalogue.transaction(force_rollback=True):
        catalogue.execute("CREATE VIEW loose AS SELECT * FROM tasks")
        catalogue.execute("CREATE VIEW tight WITH (security_invoker = true) AS SELECT * FROM tasks")
        assert catalogue.execute(query).fetchall() == [("loose",)]


def test_only_what_starts_media_jobs_runs_with_the_rights_of_its_owner(catalogue: psycopg.Connection[Any]) -> None:
    """An application that writes its rows need not be allowed to write jobs; the path of names is fixed."""
    query = "SELECT proname, proconfig FROM pg_proc WHERE pronamespace = 'public'::regnamespace AND prosecdef"
    fixed = ["search_path=public, pg_catalog, pg_temp"]
    names = ("assets_start", "assets_second_chance", "videos_insert", "videos_update")
    expected = {f"longtake_{name}": fixed for name in names}
    assert dict(catalogue.execute(query).fetchall()) == expected


def test_a_users_request_can_make_and_change_nothing(catalogue: psycopg.Connection[Any]) -> None:
    """Nor become anybody else: the role is a member of nothing, and owns nothing."""
    catalogue.execute("SET ROLE longtake_api")
    assert catalogue.execute(
        "SELECT has_schema_privilege('public', 'CREATE'), has_database_privilege(current_database(), 'CREATE')"
    ).fetchone() == (False, False)
    rights = "SELECT rolsuper, rolbypassrls, rolcreaterole, rolcreatedb, rolcanlogin FROM pg_roles WHERE rolname = %s"
    for role in ("longtake_api", "longtake_engine"):
        assert catalogue.execute(rights, (role,)).fetchone() == (False,) * 5
    owned = "SELECT FROM pg_class WHERE relowner = 'longtake_api'::regrole"
    joined = "SELECT FROM pg_auth_members WHERE member = 'longtake_api'::regrole"
    assert catalogue.execute(f"{owned} UNION ALL {joined}".encode()).fetchall() == []


BOUND = [
    "api_keys", "assets", "conversations", "credit_balances", "credit_entries", "credit_holds", "credit_transfers",
    "events", "idempotency_keys", "image_jobs", "messages", "scene_runs", "scenes", "tasks",
    "webhook_deliveries", "webhook_endpoints",
]  # fmt: skip


async def test_a_user_writes_to_no_table(single: Database) -> None:
    def send(tx: Transaction, statement: str) -> None:
        tx.sql(statement)

    for table in BOUND:
        for write in (
            f"DELETE FROM {table}",
            f"UPDATE {table} SET user_id = 'ada'",
            f"INSERT INTO {table} DEFAULT VALUES",
        ):
            with pytest.raises(RightsMissing):
                await single.run(send, write, as_user="ada")


@pytest.fixture
def single(postgresql_url: str) -> Iterator[Database]:
    """A database with one connection for everybody, and an event for each of two users."""
    opened = open_database(postgresql_url, threads=1)
    for user in ("ada", "bob"):
        opened.run_blocking(lambda tx, name: append_event(tx, "told", user_id=name), user)
    yield opened
    opened.close()


def seen(tx: Transaction) -> tuple[int, set[str]]:
    """Return the connection, and whose events it shows."""
    users = {row.user_id for row in tx.execute(text("SELECT user_id FROM events"))}
    return own_process(tx), users


def seen_as_nobody(tx: Transaction) -> set[str]:
    tx.execute(text("SET LOCAL ROLE longtake_api"))
    return seen(tx)[1]


def misuse(tx: Transaction) -> None:
    seen(tx)
    raise LookupError


def break_off(tx: Transaction) -> None:
    tx.sql("SELECT 1/0")


async def assert_nobody_is_left(single: Database) -> None:
    """The same connection shows bob his own, the program everything, and a request without a user nothing."""
    connections = set()
    for user, expected in (("bob", {"bob"}), (None, {"ada", "bob"}), ("", set()), ("bob", {"bob"})):
        connection, users = await single.read(seen, as_user=user)
        connections.add(connection)
        assert users == expected
    assert len(connections) == 1
    assert await single.read(seen_as_nobody) == set()
    assert await single.run(seen_as_nobody) == set()


async def test_a_connection_does_not_keep_its_user(single: Database) -> None:
    for transact in (single.read, single.run):
        assert (await transact(seen, as_user="ada"))[1] == {"ada"}
        await assert_nobody_is_left(single)


@pytest.mark.parametrize(("function", "error"), [(misuse, LookupError), (break_off, Exception)])
async def test_nor_after_an_error(
    single: Database, function: Callable[[Transaction], None], error: type[Exception]
) -> None:
    for transact in (single.read, single.run):
        with pytest.raises(error):
            await transact(function, as_user="ada")
        await assert_nobody_is_left(single)


async def test_nor_after_a_lost_connection(single: Database, postgresql_url: str) -> None:
    runs: list[str] = []

    def lose(tx: Transaction) -> set[str]:
        runs.append(tx.user or "")
        if len(runs) == 1:
            end_connection(postgresql_url, own_process(tx))
        return seen(tx)[1]

    # Run again by itself, on another connection and still as the same user.
    assert await single.run(lose, as_user="ada") == {"ada"}
    assert runs == ["ada", "ada"]
    await assert_nobody_is_left(single)
