"""API keys on both databases: their life, and that nothing of them is kept."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from sqlalchemy import select, text

from longtake.clock import new_id
from longtake.engine.events import read_events
from longtake.errors import NotFound, StateConflict
from longtake.services.accounts.api_keys import (
    MOST_KEYS,
    api_keys,
    create_key,
    digest,
    find_key,
    list_keys,
    make_key,
    note_use,
    revoke_key,
)  # fmt: skip
from tests.engine.stage import until_readable

if TYPE_CHECKING:
    from longtake import Database, Transaction
    from tests.databases import StoppedClock


async def create(database: Database, user: str = "alice", days: int | None = None) -> tuple[str, dict[str, Any]]:
    new = make_key()
    return new.key, await database.run(create_key, new, user, "import", "user", ["read", "generate"], days)


async def is_valid(database: Database, key: str) -> bool:
    return await database.read(find_key, digest(key)) is not None


def whole_row(tx: Transaction) -> str:
    return str([tuple(row) for row in tx.execute(select(api_keys))]) + str(read_events(tx))


def test_a_key_has_240_random_bits_behind_a_prefix_that_tells_what_it_is() -> None:
    keys = {make_key().key for _ in range(100)}
    assert len(keys) == 100
    assert all(key.startswith("lt_") and len(key) == 43 for key in keys)


async def test_a_key_is_found_by_its_digest_and_nowhere_written(database: Database) -> None:
    key, row = await create(database)
    found = await database.read(find_key, digest(key))
    assert found is not None
    assert (str(found.id), found.user_id, found.role) == (row["id"], "alice", "user")
    assert sorted(found.scopes) == ["generate", "read"]
    assert "digest" not in row
    await until_readable(database)
    written = await database.read(whole_row)
    assert digest(key) in written
    assert key not in written
    assert key[11:] not in written


@pytest.mark.parametrize("change", [str.upper, lambda key: key + "x", lambda key: key[:-1], digest])
async def test_nothing_but_the_key_itself_fits(database: Database, change: Any) -> None:
    key, _row = await create(database)
    assert await is_valid(database, key)
    assert not await is_valid(database, change(key))


async def test_a_key_ends_when_its_days_are_over(stopped_database: Database, clock: StoppedClock) -> None:
    key, row = await create(stopped_database, days=2)
    lasting, _row = await create(stopped_database)
    assert row["expires_at"].startswith("2026-01-03T12:00:00")
    clock.advance(2 * 86_400 - 1)
    assert await is_valid(stopped_database, key)
    clock.advance(1)
    assert not await is_valid(stopped_database, key)
    assert await is_valid(stopped_database, lasting)


async def test_a_revoked_key_ends_at_once_and_is_no_longer_listed(database: Database) -> None:
    key, row = await create(database)
    other, other_row = await create(database)
    await database.run(revoke_key, row["id"], "alice")
    assert not await is_valid(database, key)
    assert await is_valid(database, other)
    assert [one["id"] for one in await database.read(list_keys, "alice")] == [other_row["id"]]
    await database.run(revoke_key, row["id"], "alice")
    await until_readable(database)
    events = [(event.type, event.user_id) for event in await database.read(read_events)]
    assert events == [("key.created", "alice"), ("key.created", "alice"), ("key.revoked", "alice")]


async def test_somebody_elses_key_is_as_good_as_none(database: Database) -> None:
    key, row = await create(database)
    with pytest.raises(NotFound):
        await database.run(revoke_key, row["id"], "bob")
    with pytest.raises(NotFound):
        await database.run(revoke_key, new_id(), "alice")
    assert await database.read(list_keys, "bob") == []
    assert await is_valid(database, key)
    await database.run(revoke_key, row["id"], None)
    assert not await is_valid(database, key)


async def test_the_database_itself_shows_a_user_only_their_own_keys(postgresql_url: str) -> None:
    from longtake import open_database

    database = open_database(postgresql_url)
    try:
        await create(database, "alice")
        await create(database, "bob")

        def owners(tx: Transaction) -> list[str]:
            return [row.user_id for row in tx.execute(text("SELECT user_id FROM api_keys"))]

        assert await database.read(owners, as_user="alice") == ["alice"]
        assert sorted(await database.read(owners)) == ["alice", "bob"]
    finally:
        database.close()


async def test_the_newest_comes_first(database: Database) -> None:
    ids = [(await create(database))[1]["id"] for _ in range(3)]
    await create(database, "bob")
    assert [row["id"] for row in await database.read(list_keys, "alice")] == ids[::-1]
    assert len(await database.read(list_keys)) == 4


async def test_a_use_is_stale_after_a_minute(stopped_database: Database, clock: StoppedClock) -> None:
    key, row = await create(stopped_database)

    async def is_stale() -> bool:
        found = await stopped_database.read(find_key, digest(key))
        assert found is not None
        return bool(found.stale)

    assert await is_stale()
    await stopped_database.run(note_use, row["id"])
    clock.advance(59)
    assert not await is_stale()
    clock.advance(2)
    assert await is_stale()
    (listed,) = await stopped_database.read(list_keys, "alice")
    assert listed["last_used_at"].startswith("2026-01-01T12:00:00")


async def test_a_user_has_no_more_than_a_hundred_live_keys(database: Database) -> None:
    def many(tx: Transaction) -> str:
        rows = [create_key(tx, make_key(), "alice", "import", "user", ["read"]) for _ in range(MOST_KEYS)]
        return str(rows[0]["id"])

    first = await database.run(many)
    with pytest.raises(StateConflict, match="100 keys"):
        await create(database)
    await create(database, "bob")
    await database.run(revoke_key, first, "alice")
    await create(database)
