"""The use cases of webhooks. Addresses are checked and secrets made here, before the transaction."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from longtake.clock import iso_timestamp, new_id
from longtake.plain_text import check_plain_text
from longtake.services.webhooks.deliveries import redeliver, send_test
from longtake.services.webhooks.endpoints import NewEndpoint, change_endpoint, create_endpoint, rotate_secret
from longtake.services.webhooks.schemas import DESCRIPTION_LIMIT, URL_LIMIT
from longtake.services.webhooks.signatures import new_secret, seal_secret

if TYPE_CHECKING:
    from longtake.adapters.net import HttpClient
    from longtake.clock import Clock
    from longtake.db import Database
    from longtake.engine.engine import Engine
    from longtake.services.vault.vault import Vault


@dataclass(frozen=True, slots=True)
class Webhooks:
    """Creates and changes webhooks, and sends their deliveries again."""

    database: Database
    engine: Engine
    client: HttpClient
    vault: Vault
    clock: Clock

    async def create(self, user_id: str, url: str, description: str, events: Sequence[str]) -> dict[str, Any]:
        """Create a webhook; return it with its secret."""
        self._check({"url": url, "description": description})
        endpoint_id, secret = new_id(), new_secret()
        new = NewEndpoint(endpoint_id, url, description, events, seal_secret(self.vault, endpoint_id, secret))
        return await self.database.run(create_endpoint, user_id, new) | {"secret": secret}

    async def change(self, user_id: str, endpoint_id: str, changes: dict[str, Any]) -> dict[str, Any]:
        """Change the given fields of a webhook."""
        self._check(changes)
        return await self.database.run(change_endpoint, user_id, endpoint_id, changes)

    async def rotate(self, user_id: str, endpoint_id: str) -> dict[str, Any]:
        """Replace the secret of a webhook; return the webhook with the new one."""
        secret = new_secret()
        sealed = seal_secret(self.vault, endpoint_id, secret)
        return await self.database.run(rotate_secret, user_id, endpoint_id, sealed) | {"secret": secret}

    async def test(self, user_id: str, endpoint_id: str) -> dict[str, Any]:
        """Send a `webhook.test`; return the delivery."""
        moment = iso_timestamp(self.clock.now(), "microseconds")
        return await self.database.run(send_test, self.engine, user_id, endpoint_id, moment)

    async def redeliver(self, user_id: str, endpoint_id: str, delivery_id: str) -> dict[str, Any]:
        """Attempt a delivery now; return it."""
        return await self.database.run(redeliver, self.engine, user_id, endpoint_id, delivery_id)

    def _check(self, texts: dict[str, Any]) -> None:
        if "description" in texts:
            check_plain_text("description", texts["description"], most=DESCRIPTION_LIMIT)
        if "url" in texts:
            check_plain_text("url", texts["url"], most=URL_LIMIT, least=1)
            self.client.check_url(texts["url"])
