"""`/v1/webhooks`: a user's webhooks and their deliveries.

Addresses are checked and secrets made before the transaction.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Any, Literal
from uuid import UUID

from fastapi import APIRouter, Query
from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from longtake.adapters.net import HttpClient
from longtake.capability import Context
from longtake.clock import Clock, iso_timestamp, new_id
from longtake.db import Database
from longtake.engine.engine import Engine
from longtake.engine.events import check_pattern, patterns_of
from longtake.http.problem_schema import BODY, CALLER, problems
from longtake.http.strict_json import StrictRoute
from longtake.services.accounts.current_caller import GENERATE, READ, Caller, CurrentCaller
from longtake.services.vault.vault import Vault
from longtake.services.webhooks.dispatcher import PAGE_LIMIT, get_delivery, list_deliveries, redeliver, send_test
from longtake.services.webhooks.endpoints import (
    MOST_PATTERNS,
    change_endpoint,
    create_endpoint,
    delete_endpoint,
    delivered,
    get_endpoint,
    list_endpoints,
    rotate_secret,
)
from longtake.services.webhooks.signatures import new_secret, seal_secret
from longtake.validation import check_plain_text

URL_LIMIT = 2_000
DESCRIPTION_LIMIT = 200

Url = Annotated[str, Field(min_length=1, max_length=URL_LIMIT, description="Where events are sent: https or http.")]
Description = Annotated[str, Field(max_length=DESCRIPTION_LIMIT, description="A note for yourself.")]
State = Literal["pending", "delivered", "failed"]

_WEBHOOK = "0199c1f2-7a40-7cc3-98c4-dc0c0c07398f"
_DELIVERY = "0199c1f2-9d11-7b0e-8f3a-5b1f0e9d2c44"
_TASK = "0199c1f2-9d00-7b0e-8f3a-5b1f0e9d2c44"
_MOMENT = "2026-01-01T12:00:00Z"
_SECRET = "whsec_bm90IGEgc2VjcmV0LCBvbmx5IGFuIGV4YW1wbGUhISE="  # noqa: S105 - an example

_SHOWN: dict[str, Any] = {
    "id": _WEBHOOK,
    "url": "https://example.com/longtake",
    "description": "the shop",
    "events": ["task.completed", "task.failed"],
    "enabled": True,
    "disabled_reason": None,
    "previous_ends_at": None,
    "last_success_at": _MOMENT,
    "created_at": _MOMENT,
    "changed_at": _MOMENT,
}
_SHOWN_DELIVERY: dict[str, Any] = {
    "id": _DELIVERY,
    "event": "8124.60",
    "type": "task.completed",
    "state": "pending",
    "attempts": 1,
    "status_code": 500,
    "seconds": 0.12,
    "error": "The server answered 500; only 200 to 299 counts as received.",
    "next_at": _MOMENT,
    "created_at": _MOMENT,
    "ended_at": None,
}
_PAYLOAD: dict[str, Any] = {"type": "task.completed", "timestamp": _MOMENT, "data": {"id": _TASK, "cursor": "8124.60"}}


class WebhookView(BaseModel):
    """A webhook as its owner sees it; never its secret."""

    model_config = ConfigDict(json_schema_extra={"examples": [_SHOWN]})

    id: str
    url: str
    description: str
    events: list[str]
    enabled: bool
    disabled_reason: Literal["gone", "failing", "owner"] | None = Field(
        description="It answered 410, it accepted nothing for three days, or you disabled it."
    )
    previous_ends_at: datetime | None = Field(description="Until when the previous secret signs as well.")
    last_success_at: datetime | None
    created_at: datetime
    changed_at: datetime


class WebhookWithSecret(WebhookView):
    """A webhook with its new secret, which is shown only this once."""

    model_config = ConfigDict(json_schema_extra={"examples": [{**_SHOWN, "secret": _SECRET}]})

    secret: str = Field(description="Verifies signatures. It is not shown again: store it now.")


class WebhookList(BaseModel):
    """All webhooks of a user, the newest first."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"webhooks": [_SHOWN]}]})

    webhooks: list[WebhookView]


class DeliveryView(BaseModel):
    """One event for one webhook: the result of the last attempt, and the time of the next."""

    model_config = ConfigDict(json_schema_extra={"examples": [_SHOWN_DELIVERY]})

    id: str = Field(description="The header `webhook-id` is `msg_` and this.")
    event: str | None = Field(description="The event's cursor; null for a test.")
    type: str
    state: State
    attempts: int
    status_code: int | None
    seconds: float | None
    error: str | None
    next_at: datetime | None
    created_at: datetime
    ended_at: datetime | None


class DeliveryWithPayload(DeliveryView):
    """One delivery with its payload."""

    model_config = ConfigDict(json_schema_extra={"examples": [_SHOWN_DELIVERY | {"payload": _PAYLOAD}]})

    payload: dict[str, Any]


class DeliveryList(BaseModel):
    """Deliveries, newest first; `next` is the `before` of the next page."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"deliveries": [_SHOWN_DELIVERY], "next": _DELIVERY}]})

    deliveries: list[DeliveryView]
    next: str | None


Limit = Annotated[int, Query(ge=1, le=PAGE_LIMIT, description="How many at most.")]
Older = Annotated[UUID | None, Query(description="Only deliveries older than this one.")]
OfState = Annotated[State | None, Query(description="Only those in this state.")]

FOUND = (*CALLER, "REQUEST_INVALID", "NOT_FOUND")
WRITTEN = (*CALLER, *BODY, "TEXT_INVALID", "ADDRESS_REFUSED")


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


def routers(context: Context, engine: Engine) -> list[APIRouter]:
    """Return the routes of this process."""
    webhooks = Webhooks(context.database, engine, context.http, context.get(Vault), context.clock)
    return [build_routes(webhooks, context.event_types)]


def build_routes(webhooks: Webhooks, types: Sequence[str]) -> APIRouter:
    """Return the routes of webhooks for events of these types."""
    router = APIRouter(prefix="/v1/webhooks", tags=["webhooks"], route_class=StrictRoute)
    _add_reading(router, webhooks)
    _add_changing(router, webhooks, patterns_of(delivered(types)))
    _add_deliveries(router, webhooks)
    return router


def _require(caller: Caller, to_do: str) -> None:
    """Require a token with both scopes: a webhook receives all events of its owner, and outlives a key."""
    caller.require(GENERATE)
    caller.require(READ)
    caller.require_token(to_do)


def _add_reading(router: APIRouter, webhooks: Webhooks) -> None:
    @router.get("", summary="My webhooks", responses=problems(*CALLER))
    async def list_mine(caller: CurrentCaller) -> WebhookList:
        """Return your webhooks, the newest first. Scope `read`."""
        caller.require(READ)
        rows = await webhooks.database.read(list_endpoints, caller.user_id, as_user=caller.user_id)
        return WebhookList(webhooks=[WebhookView.model_validate(row) for row in rows])

    @router.get("/{webhook_id}", summary="One webhook", responses=problems(*FOUND))
    async def show(webhook_id: UUID, caller: CurrentCaller) -> WebhookView:
        """Return a webhook of yours. Scope `read`."""
        caller.require(READ)
        user = caller.user_id
        row = await webhooks.database.read(get_endpoint, user, str(webhook_id), as_user=user)
        return WebhookView.model_validate(row)


def _add_changing(router: APIRouter, webhooks: Webhooks, known: Sequence[str]) -> None:
    Pattern = Annotated[  # noqa: N806 - a type
        str,
        AfterValidator(lambda pattern: check_pattern(pattern, known)),
        Field(json_schema_extra={"enum": list(known)}),
    ]
    Patterns = Annotated[  # noqa: N806
        list[Pattern],
        Field(max_length=MOST_PATTERNS, description="Types such as `task.completed`, or `task.*`; none means all."),
    ]

    class NewWebhook(BaseModel):
        """A new webhook."""

        model_config = ConfigDict(
            extra="forbid",
            json_schema_extra={"examples": [{"url": "https://example.com/longtake", "events": ["task.completed"]}]},
        )

        url: Url
        description: Description = ""
        events: Patterns = []

    class WebhookChange(BaseModel):
        """The fields to change; a field that is missing or null stays as it is."""

        model_config = ConfigDict(extra="forbid", json_schema_extra={"examples": [{"enabled": True}]})

        url: Url | None = None
        description: Description | None = None
        enabled: bool | None = Field(
            default=None, strict=True, description="False sends nothing more; true sends again."
        )
        events: Patterns | None = None

    @router.post("", status_code=201, summary="Make a webhook", responses=problems(*WRITTEN, "STATE_CONFLICT"))
    async def create(wanted: NewWebhook, caller: CurrentCaller) -> WebhookWithSecret:
        """Send events to your server from now on. The secret is shown only here.

        By a token, not by an API key. Scopes `generate`, `read`.
        """
        _require(caller, "make webhooks")
        made = await webhooks.create(caller.user_id, wanted.url, wanted.description, wanted.events)
        return WebhookWithSecret.model_validate(made)

    @router.patch("/{webhook_id}", summary="Change a webhook", responses=problems(*WRITTEN, "NOT_FOUND"))
    async def change(webhook_id: UUID, wanted: WebhookChange, caller: CurrentCaller) -> WebhookView:
        """Change its address, description or events, disable it, or enable it again.

        By a token, not by an API key. Scopes `generate`, `read`.
        """
        _require(caller, "change webhooks")
        changes = wanted.model_dump(exclude_none=True)
        return WebhookView.model_validate(await webhooks.change(caller.user_id, str(webhook_id), changes))

    @router.delete("/{webhook_id}", status_code=204, summary="Delete a webhook", responses=problems(*FOUND))
    async def delete(webhook_id: UUID, caller: CurrentCaller) -> None:
        """Delete a webhook with its deliveries. Scope `generate`."""
        caller.require(GENERATE)
        await webhooks.database.run(delete_endpoint, caller.user_id, str(webhook_id))

    @router.post("/{webhook_id}/rotate", summary="Change a webhook's secret", responses=problems(*FOUND))
    async def rotate(webhook_id: UUID, caller: CurrentCaller) -> WebhookWithSecret:
        """Return a new secret. For 24 hours, requests are signed with the previous one as well.

        By a token, not by an API key. Scopes `generate`, `read`.
        """
        _require(caller, "read secrets of webhooks")
        return WebhookWithSecret.model_validate(await webhooks.rotate(caller.user_id, str(webhook_id)))

    @router.post(
        "/{webhook_id}/test", status_code=202, summary="Try a webhook", responses=problems(*FOUND, "STATE_CONFLICT")
    )
    async def test(webhook_id: UUID, caller: CurrentCaller) -> DeliveryWithPayload:
        """Send a `webhook.test`, attempted once; the delivery shows the result. Scope `generate`."""
        caller.require(GENERATE)
        moment = iso_timestamp(webhooks.clock.now(), "microseconds")
        sent = await webhooks.database.run(send_test, webhooks.engine, caller.user_id, str(webhook_id), moment)
        return DeliveryWithPayload.model_validate(sent)


def _add_deliveries(router: APIRouter, webhooks: Webhooks) -> None:
    @router.get("/{webhook_id}/deliveries", summary="Deliveries of a webhook", responses=problems(*FOUND))
    async def list_sent(
        webhook_id: UUID, caller: CurrentCaller, state: OfState = None, before: Older = None, limit: Limit = 50
    ) -> DeliveryList:
        """Return deliveries, newest first. Scope `read`."""
        caller.require(READ)
        user, cursor = caller.user_id, None if before is None else str(before)
        rows, following = await webhooks.database.read(
            list_deliveries, user, str(webhook_id), state, cursor, limit, as_user=user
        )
        return DeliveryList(deliveries=[DeliveryView.model_validate(row) for row in rows], next=following)

    @router.get("/{webhook_id}/deliveries/{delivery_id}", summary="One delivery", responses=problems(*FOUND))
    async def show_sent(webhook_id: UUID, delivery_id: UUID, caller: CurrentCaller) -> DeliveryWithPayload:
        """Return a delivery with its payload. Scope `read`."""
        caller.require(READ)
        user, ids = caller.user_id, (str(webhook_id), str(delivery_id))
        return DeliveryWithPayload.model_validate(await webhooks.database.read(get_delivery, user, *ids, as_user=user))

    @router.post(
        "/{webhook_id}/deliveries/{delivery_id}/redeliver",
        status_code=202,
        summary="Deliver again",
        responses=problems(*FOUND, "STATE_CONFLICT"),
    )
    async def send_again(webhook_id: UUID, delivery_id: UUID, caller: CurrentCaller) -> DeliveryWithPayload:
        """Deliver again now, under the same `webhook-id`; 409 while an attempt is running. Scope `generate`."""
        caller.require(GENERATE)
        user, ids = caller.user_id, (str(webhook_id), str(delivery_id))
        sent = await webhooks.database.run(redeliver, webhooks.engine, user, *ids)
        return DeliveryWithPayload.model_validate(sent)
