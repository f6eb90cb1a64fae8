"""A stage for webhooks: a receiver that behaves as told, events written by hand, deliveries tried one at a time."""

from __future__ import annotations

import json
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from sqlalchemy import select

from longtake import Engine
from longtake.adapters.net import HttpClient
from longtake.clock import SystemClock
from longtake.db.dialects import seconds_until
from longtake.engine.events import append_event
from longtake.engine.tables import events, jobs
from longtake.services.vault.vault import Vault
from longtake.services.webhooks.dispatcher import Dispatcher, list_deliveries
from longtake.services.webhooks.endpoints import get_endpoint, webhook_deliveries
from longtake.services.webhooks.jobs import WEBHOOK_LANE, WebhookSender
from longtake.services.webhooks.routes import Webhooks
from tests.engine.stage import claim_lane, finish, hire, until_read, until_readable
from tests.net.servers import Behaviour, Server, answer, running, saying

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from longtake import Database, Job, Outcome, Transaction
    from longtake.clock import Clock

KEY = b"k" * 32
OK = saying(answer(204))


def tell(tx: Transaction, *kinds: str, user_id: str = "ann") -> None:
    """Write events of a user."""
    for number, kind in enumerate(kinds):
        append_event(tx, kind, subject=f"about {kind}", user_id=user_id, data={"number": number})


#: What users can ask for.
TYPES = ("task.created", "task.completed", "asset.stored", "credits.changed", "webhook.disabled")


class Stage:
    """Everything that webhooks are made of, without a worker."""

    def __init__(self, database: Database, clock: Clock | None = None, client: HttpClient | None = None) -> None:
        self.database = database
        self.clock = clock or SystemClock()
        self.client = client or HttpClient(allowed_addresses=["loopback"])
        self.vault = Vault(lambda: [KEY])
        self.delivering = WebhookSender(database, self.client, self.vault, self.clock)
        self.engine = Engine(database, [self.delivering.kind()], [WEBHOOK_LANE])
        self.webhooks = Webhooks(database, self.engine, self.client, self.vault, self.clock)
        self.dispatcher = Dispatcher(database, self.engine, TYPES)
        self.receiver: Server

    @asynccontextmanager
    async def open(self) -> AsyncIterator[Stage]:
        await self.engine.start()
        async with running(OK) as self.receiver:
            yield self
        await self.client.close()

    def answers(self, behaviour: Behaviour) -> None:
        """Let the receiver behave in another way from now on."""
        self.receiver.behaviour = behaviour

    async def create(self, *patterns: str, user: str = "ann", url: str | None = None) -> dict[str, Any]:
        return await self.webhooks.create(user, url or f"{self.receiver.url}/hook", "", patterns)

    async def tell(self, *kinds: str, user_id: str = "ann", settled: bool = True) -> None:
        """Write events; wait until they may be read, unless the test itself holds them up."""

        def write(tx: Transaction) -> None:
            tell(tx, *kinds, user_id=user_id)

        await self.database.run(write)
        if settled:
            await until_readable(self.database)

    async def claim(self) -> list[Job]:
        worker = await self.database.run(hire)
        return await self.database.run(claim_lane, self.engine, WEBHOOK_LANE.name, worker)

    async def try_job(self, job: Job) -> Outcome:
        outcome = await self.engine.kinds[job.kind].handler(job)
        assert await self.database.run(finish, self.engine, job, outcome)
        return outcome

    async def try_once(self) -> Outcome:
        """Try the one delivery that is due."""
        [job] = await self.claim()
        return await self.try_job(job)

    async def try_all(self) -> list[Outcome]:
        """Try every delivery that is due."""
        return [await self.try_job(job) for job in await self.claim()]

    async def endpoint(self, endpoint_id: str, user: str = "ann") -> dict[str, Any]:
        return await self.database.read(get_endpoint, user, endpoint_id)

    async def deliveries(self, endpoint_id: str, user: str = "ann") -> list[dict[str, Any]]:
        """Return them in the order in which they were made."""
        rows, _next = await self.database.read(list_deliveries, user, endpoint_id, None, None, 200)
        return rows[::-1]

    async def types(self, endpoint_id: str, user: str = "ann") -> list[str]:
        return [str(one["type"]) for one in await self.deliveries(endpoint_id, user)]

    async def until_delivered(self, endpoint_id: str, number: int) -> None:
        """Wait until so many deliveries have been made."""

        def count(tx: Transaction) -> int:
            return len(list_deliveries(tx, "ann", endpoint_id, None, None, 200)[0])

        await until_read(self.database, count, lambda found: found == number)

    async def events(self, kind: str) -> list[Any]:
        def read(tx: Transaction) -> list[Any]:
            return list(tx.execute(select(events.c.data).where(events.c.type == kind)).scalars())

        return await self.database.read(read)

    async def wait_of(self, delivery_id: str) -> float:
        """Return in how many seconds the delivery's job is due."""

        def read(tx: Transaction) -> float:
            return float(tx.execute(select(seconds_until(jobs.c.due_at)).where(jobs.c.key == delivery_id)).scalar_one())

        return await self.database.read(read)

    async def written(self) -> tuple[int, int]:
        """Return how many deliveries and how many jobs there are."""

        def read(tx: Transaction) -> tuple[int, int]:
            made = len(tx.execute(select(webhook_deliveries.c.id)).all())
            return made, len(tx.execute(select(jobs.c.id)).all())

        return await self.database.read(read)

    def received(self) -> list[dict[str, Any]]:
        """Return the payloads that arrived, in order."""
        return [json.loads(request.body) for request in self.receiver.received]
