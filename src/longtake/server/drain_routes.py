"""Processing the queue by request, for hosts without a permanent worker: a cron job or platform calls this."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import asdict, dataclass, field
from typing import Annotated

import structlog
from fastapi import APIRouter, Header, Request
from pydantic import BaseModel, ConfigDict, Field

from longtake.clock import iso_timestamp
from longtake.engine.drain import DrainResult, drain
from longtake.engine.engine import Engine
from longtake.errors import NotFound
from longtake.http.problem_schema import BODY, problems
from longtake.http.strict_json import StrictRoute
from longtake.server.errors import InternalSecretRefused, TooManyProcessings
from longtake.services.accounts.authenticator import Authenticator
from longtake.services.webhooks.dispatcher import has_news
from longtake.settings import Settings

log = structlog.get_logger(__name__)

#: Requests that process at once in one server; each is a worker of its own.
MOST = 3
SECONDS, LONGEST = 25.0, 300.0
RETRY_SECONDS = 5.0


class ProcessBody(BaseModel):
    """How long to work."""

    model_config = ConfigDict(extra="forbid", json_schema_extra={"examples": [{"seconds": 55}]})

    seconds: float = Field(
        default=SECONDS, ge=1, le=LONGEST, allow_inf_nan=False, description="How long the answer may take at most."
    )


class Processed(BaseModel):
    """What was processed, and what still waits."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "finished": 14, "failed": 1, "put_off": 2, "given_back": 0, "waiting": 3, "seconds": 24.3,
                    "next_due_at": "2026-01-01T12:00:07.500000Z",
                }
            ]
        }
    )  # fmt: skip

    finished: int
    failed: int
    put_off: int = Field(description="Tries that ended, and have another one to come.")
    given_back: int = Field(description="Given back unspent: the time was up, or a start came too late for its lane.")
    waiting: int = Field(description="Jobs that wait now, counted up to 10,000.")
    seconds: float
    next_due_at: str | None = Field(description="When the next may begin; null when nothing waits.")


@dataclass
class Processing:
    """Everything the route needs. Without a secret the route answers 404."""

    engine: Engine
    settings: Settings
    beside_worker: Callable[[], AbstractAsyncContextManager[None]]
    #: How many requests process now.
    under_way: int = field(default=0)

    def admit(self, accounts: Authenticator, address: str, shown: str | None) -> None:
        """Require the shared secret. Answer 404 when none is configured."""
        secret = self.settings.internal_secret.get_secret_value()
        if not secret:
            raise NotFound("Nothing is processed by request here.", hint="LONGTAKE_INTERNAL_SECRET turns it on.")
        if shown is None:
            raise InternalSecretRefused("This needs the header X-Internal-Secret.")
        if not accounts.knows_secret(address, shown, secret):
            raise InternalSecretRefused("X-Internal-Secret is not the secret of this server.")

    async def process(self, seconds: float) -> DrainResult:
        """Process the queue; webhooks are dispatched meanwhile, as with any worker."""
        if self.under_way >= MOST:
            message = f"{MOST} requests process the queue in this server already."
            raise TooManyProcessings(message, retry_after=RETRY_SECONDS)
        self.under_way += 1
        try:
            async with self.beside_worker():
                return await drain(
                    self.engine,
                    seconds,
                    lease_seconds=self.settings.lease_seconds,
                    concurrency=self.settings.worker_concurrency,
                    has_more=self._has_news,
                )
        finally:
            self.under_way -= 1

    async def _has_news(self) -> bool:
        return await self.engine.database.read(has_news)


def build_routes(processing: Processing) -> APIRouter:
    """Return the route."""
    router = APIRouter(prefix="/v1", tags=["process"], route_class=StrictRoute)
    refusals = ("INTERNAL_SECRET_REFUSED", "NOT_FOUND", "RATE_LIMITED", "PROCESSINGS_TOO_MANY", "DATABASE_UNAVAILABLE")
    as_usual = ProcessBody()

    @router.post("/internal/process", responses=problems(*BODY, *refusals), summary="Work off the queue")
    async def process(
        request: Request,
        x_internal_secret: Annotated[
            str | None, Header(description="What LONGTAKE_INTERNAL_SECRET is.", examples=["a-shared-secret-of-yours"])
        ] = None,
        body: ProcessBody = as_usual,
    ) -> Processed:
        """Run due jobs for at most `seconds`, and answer as soon as nothing more is due."""
        address = request.client.host if request.client else ""
        processing.admit(request.app.state.accounts, address, x_internal_secret)
        clock = processing.engine.clock
        started = clock.monotonic()
        done = await processing.process(body.seconds)
        took = round(clock.monotonic() - started, 3)
        log.info("queue processed by request", action="process", seconds=took, finished=done.finished)
        return Processed(**asdict(done) | {"seconds": took, "next_due_at": iso_timestamp(done.next_due_at)})

    return router
