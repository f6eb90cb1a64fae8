"""The use cases of webhooks, and their deliveries as an endpoint's owner sees them.

Addresses are checked and secrets made before the transaction.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import orjson
from sqlalchemy import select, update

from longtake.adapters.net import HttpClient
from longtake.capability import Context
from longtake.clock import Clock, new_id
from longtake.db import Database, Transaction
from longtake.db.dialects import NOW
from longtake.engine.control import cancel_of_subjects, hurry
from longtake.engine.engine import Engine
from longtake.engine.queries import plain
from longtake.errors import NotFound, StateConflict
from longtake.plain_text import check_plain_text
from longtake.services.vault.vault import Vault
from longtake.services.webhooks.dispatcher import DELIVER, delivery_values, enqueue_deliveries, write_deliveries
from longtake.services.webhooks.endpoints import (
    IN_STATE,
    change_endpoint,
    create_endpoint,
    get_endpoint,
    rotate_secret,
    webhook_deliveries,
)
from longtake.services.webhooks.signatures import new_secret, seal_secret

PAGE_LIMIT = 200
URL_LIMIT = 2_000
DESCRIPTION_LIMIT = 200
TEST_TYPE = "webhook.test"
SHOWN = tuple(webhook_deliveries.c[name] for name in (
    "id", "event", "type", "state", "attempts", "status_code", "seconds", "error", "next_at", "created_at", "ended_at",
))  # fmt: skip


@dataclass(frozen=True, slots=True)
class Webhooks:
    """Creates and changes webhooks, and sends their deliveries again."""

    database: Database
    engine: Engine
    client: HttpClient
    vault: Vault
    clock: Clock

    @classmethod
    def of(cls, context: Context, engine: Engine) -> Webhooks:
        return cls(context.database, engine, context.http, context.get(Vault), context.clock)

    async def create(self, user_id: str, url: str, description: str, events: Sequence[str]) -> dict[str, Any]:
        """Create a webhook; return it with its secret."""
        self._check({"url": url, "description": description})
        endpoint_id, secret = new_id(), new_secret()
        given = (endpoint_id, url, description, events, seal_secret(self.vault, endpoint_id, secret))
        return await self.database.run(create_endpoint, user_id, *given) | {"secret": secret}

    async def change(self, user_id: str, endpoint_id: str, changes: dict[str, Any]) -> dict[str, Any]:
        self._check(changes)
        return await self.database.run(change_endpoint, user_id, endpoint_id, changes)

    async def rotate(self, user_id: str, endpoint_id: str) -> dict[str, Any]:
        """Replace the secret of a webhook; return the webhook with the new one."""
        secret = new_secret()
        sealed = seal_secret(self.vault, endpoint_id, secret)
        return await self.database.run(rotate_secret, user_id, endpoint_id, sealed) | {"secret": secret}

    def _check(self, texts: dict[str, Any]) -> None:
        if "description" in texts:
            check_plain_text("description", texts["description"], most=DESCRIPTION_LIMIT)
        if "url" in texts:
            check_plain_text("url", texts["url"], most=URL_LIMIT, least=1)
            self.client.check_url(texts["url"])


def list_deliveries(
    tx: Transaction, user_id: str, endpoint_id: str, state: str | None, before: str | None, limit: int
) -> tuple[list[dict[str, Any]], str | None]:
    """Return a page of deliveries, newest first, and the cursor of the next page, if any."""
    get_endpoint(tx, user_id, endpoint_id)
    own = (webhook_deliveries.c.endpoint_id == endpoint_id, webhook_deliveries.c.user_id == user_id)
    query = select(*SHOWN).where(*own)
    if state is not None:
        query = query.where(IN_STATE[state])
    if before is not None:
        query = query.where(webhook_deliveries.c.id < before)
    rows = tx.execute(query.order_by(webhook_deliveries.c.id.desc()).limit(limit + 1)).all()
    cursor = str(rows[limit - 1].id) if len(rows) > limit else None
    return [plain(row) for row in rows[:limit]], cursor


def get_delivery(tx: Transaction, user_id: str, endpoint_id: str, delivery_id: str) -> dict[str, Any]:
    """Return one delivery with its payload."""
    get_endpoint(tx, user_id, endpoint_id)
    query = select(*SHOWN, webhook_deliveries.c.payload).where(*_own(user_id, endpoint_id, delivery_id))
    row = tx.execute(query).first()
    if row is None:
        raise NotFound(f"There is no delivery {delivery_id}.", hint="GET /v1/webhooks/{id}/deliveries lists them.")
    return plain(row) | {"payload": orjson.loads(row.payload)}


def send_test(tx: Transaction, engine: Engine, user_id: str, endpoint_id: str, moment: str) -> dict[str, Any]:
    """Send a `webhook.test`. It is attempted once, and its result does not affect the endpoint."""
    _require_enabled(tx, user_id, endpoint_id)
    payload = {"type": TEST_TYPE, "timestamp": moment, "data": {"id": endpoint_id, "cursor": None}}
    values = delivery_values(endpoint_id, user_id, TEST_TYPE, payload, None)
    write_deliveries(tx, engine, [values])
    return get_delivery(tx, user_id, endpoint_id, values["id"])


def redeliver(tx: Transaction, engine: Engine, user_id: str, endpoint_id: str, delivery_id: str) -> dict[str, Any]:
    """Try again now, under the same id. A delivery that has ended gets all its attempts again."""
    get_delivery(tx, user_id, endpoint_id, delivery_id)
    _require_enabled(tx, user_id, endpoint_id)
    own = _own(user_id, endpoint_id, delivery_id)
    again = {"state": "pending", "next_at": NOW, "ended_at": None}
    ended = update(webhook_deliveries).where(*own, webhook_deliveries.c.state != "pending").values(**again)
    if tx.execute(ended).rowcount:
        # A delivery that failed with its endpoint may still have its old job, hours away and with few attempts left.
        # What ends that job at this moment changes no delivery that has ended.
        cancel_of_subjects(tx, [delivery_id], [DELIVER], "delivered again by hand")
        enqueue_deliveries(tx, engine, [delivery_id])
    elif hurry(tx, DELIVER, [delivery_id]):
        tx.execute(update(webhook_deliveries).where(*own).values(next_at=NOW))
    else:
        raise StateConflict(f"The delivery {delivery_id} is already being attempted.", hint="Try again in a moment.")
    return get_delivery(tx, user_id, endpoint_id, delivery_id)


def _require_enabled(tx: Transaction, user_id: str, endpoint_id: str) -> None:
    if not get_endpoint(tx, user_id, endpoint_id)["enabled"]:
        raise StateConflict(
            f"The webhook {endpoint_id} is disabled.", hint='PATCH it with {"enabled": true}, then try again.'
        )


def _own(user_id: str, endpoint_id: str, delivery_id: str) -> tuple[Any, Any, Any]:
    one = webhook_deliveries.c
    return one.id == delivery_id, one.endpoint_id == endpoint_id, one.user_id == user_id
