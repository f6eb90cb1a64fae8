"""Deliveries are found by an index, however many were made: those that failed are few among many."""

from __future__ import annotations

from typing import TYPE_CHECKING

import psycopg
import pytest

from longtake import Database, open_database
from longtake.services.webhooks.dispatcher import list_deliveries
from longtake.services.webhooks.endpoints import disable_endpoint
from tests.generation.test_plans import plans_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from longtake import Transaction
    from tests.databases import PostgresqlServer

ENDPOINT = "019a8f6e-5d0c-7c41-9f53-0f6d1f2b7a10"
MAKE = f"INSERT INTO webhook_endpoints (id, user_id, url, secret) VALUES ('{ENDPOINT}', 'ann', 'http://a', 'sealed')"
FILL = f"""
INSERT INTO webhook_deliveries (endpoint_id, user_id, event, type, payload, state)
SELECT '{ENDPOINT}', 'ann', '1.' || number, 'task.completed', repeat('x', 200),
       CASE number % 5000 WHEN 0 THEN 'failed' WHEN 1 THEN 'pending' ELSE 'delivered' END
FROM generate_series(1, 20000) AS number
"""


@pytest.fixture
def sqlite(sqlite_url: str) -> Iterator[Database]:
    database = open_database(sqlite_url)
    yield database
    database.close()


@pytest.fixture
def crowded(postgresql_server: PostgresqlServer) -> Iterator[Database]:
    url = postgresql_server.new_database()
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(MAKE.encode())
        connection.execute(FILL.encode())
        connection.execute("ANALYZE webhook_deliveries")
    database = open_database(url)
    yield database
    database.close()
    postgresql_server.drop_database(url)


@pytest.mark.parametrize("state", ["pending", "failed"])
async def test_deliveries_of_a_state_are_read_by_its_index(sqlite: Database, crowded: Database, state: str) -> None:
    asked = ("ann", ENDPOINT, state, None, 50)
    await sqlite.run(make)
    plans = await sqlite.run(plans_of, list_deliveries, *asked)
    assert f"SEARCH webhook_deliveries USING INDEX webhook_deliveries_{state} (endpoint_id=?)" in plans
    plans = await crowded.read(plans_of, list_deliveries, *asked)
    assert any(f"webhook_deliveries_{state}" in one for one in plans), plans


async def test_disabling_reads_only_what_was_still_to_be_delivered(sqlite: Database, crowded: Database) -> None:
    await sqlite.run(make)
    plans = await sqlite.run(plans_of, disable_endpoint, ENDPOINT, "owner")
    assert any("webhook_deliveries_pending" in one for one in plans), plans
    plans = await crowded.run(plans_of, disable_endpoint, ENDPOINT, "owner")
    assert any("webhook_deliveries_pending" in one for one in plans), plans


def make(tx: Transaction) -> None:
    tx.sql(MAKE)
