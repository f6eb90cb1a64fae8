"""Requests of a user: on PostgreSQL the database itself shows them their own rows only."""

from __future__ import annotations

from typing import TYPE_CHECKING

import psycopg
import pytest
from sqlalchemy import text

from longtake import open_database
from longtake.db.errors import RightsMissing
from longtake.engine.events import append_event, read_events
from tests.databases import OWNER
from tests.engine.stage import until_readable, wait_until_readable

if TYPE_CHECKING:
    from collections.abc import Iterator

    from longtake import Database, Transaction
    from tests.databases import PostgresqlServer

USERS = ["alice", "bob", 'o\'hara \\ "the" third', None]


def tell_each(tx: Transaction) -> None:
    for user in USERS:
        append_event(tx, "told", subject=f"for {user}", user_id=user)


def subjects(tx: Transaction) -> list[str | None]:
    return [event.subject for event in read_events(tx)]


def current_role(tx: Transaction) -> tuple[str, str]:
    query = "SELECT current_user::text AS role, coalesce(current_setting('longtake.user', true), '') AS name"
    row = tx.execute(text(query)).one()
    return row.role, row.name


@pytest.fixture
def single(postgresql_url: str) -> Iterator[Database]:
    """A database with one connection, so that whatever stayed behind would show."""
    opened = open_database(postgresql_url, threads=1)
    opened.run_blocking(tell_each)
    wait_until_readable(opened)
    yield opened
    opened.close()


async def test_the_transaction_knows_its_user(database: Database) -> None:
    def who(tx: Transaction) -> str | None:
        return tx.user

    assert await database.run(who, as_user="alice") == "alice"
    assert await database.read(who, as_user="bob") == "bob"
    assert await database.run(who) is None
    assert await database.read(who) is None


@pytest.mark.parametrize("user", ["alice", "bob", 'o\'hara \\ "the" third'])
async def test_a_user_sees_their_own_rows_only(single: Database, user: str) -> None:
    assert await single.read(subjects, as_user=user) == [f"for {user}"]
    assert await single.run(subjects, as_user=user) == [f"for {user}"]


@pytest.mark.parametrize("user", ["", "nobody", "%", "alice'; RESET ROLE; --"])
async def test_an_empty_or_strange_user_sees_nothing(single: Database, user: str) -> None:
    assert await single.read(subjects, as_user=user) == []
    assert await single.run(subjects, as_user=user) == []


async def test_a_missing_user_sees_nothing(single: Database) -> None:
    def as_role_only(tx: Transaction) -> list[str | None]:
        tx.execute(text("SET LOCAL ROLE longtake_api"))
        return subjects(tx)

    assert await single.read(as_role_only) == []


async def test_the_role_and_the_user_end_with_the_transaction(single: Database) -> None:
    def fail(_tx: Transaction) -> None:
        raise LookupError

    before = await single.run(current_role)
    assert await single.run(current_role, as_user="alice") == ("longtake_api", "alice")
    assert await single.run(current_role) == before
    with pytest.raises(LookupError):
        await single.run(fail, as_user="alice")
    assert await single.run(current_role) == before
    assert len(await single.read(subjects)) == len(USERS)


async def test_a_user_cannot_write_events_or_see_jobs(single: Database) -> None:
    def see_jobs(tx: Transaction) -> int:
        return int(tx.execute(text("SELECT count(*) FROM jobs")).scalar_one())

    with pytest.raises(RightsMissing):
        await single.run(tell_each, as_user="alice")
    with pytest.raises(RightsMissing):
        await single.read(see_jobs, as_user="alice")


async def test_the_program_need_not_own_the_tables(postgresql_url: str, postgresql_server: PostgresqlServer) -> None:
    """A role that is neither owner nor superuser, only a member of the two roles, can do the program's work."""
    with psycopg.connect(postgresql_server.admin_url(), autocommit=True) as connection:
        connection.execute("DROP ROLE IF EXISTS plain_program")
        connection.execute("CREATE ROLE plain_program LOGIN IN ROLE longtake_engine, longtake_api")
    database = open_database(postgresql_url.replace(f"{OWNER}@", "plain_program@", 1), threads=1)
    try:
        assert (await database.run(current_role))[0] == "plain_program"
        await database.run(tell_each)
        await until_readable(database)
        assert len(await database.read(subjects)) == len(USERS)
        assert await database.read(subjects, as_user="bob") == ["for bob"]
        assert await database.read(subjects, as_user="") == []
    finally:
        database.close()
