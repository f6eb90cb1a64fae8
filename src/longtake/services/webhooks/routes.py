"""`/v1/webhooks`: a user's webhooks and their deliveries."""

from collections.abc import Sequence
from typing import Annotated
from uuid import UUID

from fastapi import APIRouter, Query
from pydantic import AfterValidator, Field

from longtake.capability import Context
from longtake.engine.engine import Engine
from longtake.engine.events import check_pattern, patterns_of
from longtake.http.problem_schema import BODY, CALLER, problems
from longtake.http.strict_json import StrictRoute
from longtake.services.accounts.current_caller import GENERATE, READ, Caller, CurrentCaller
from longtake.services.webhooks.endpoints import delete_endpoint, delivered, get_endpoint, list_endpoints
from longtake.services.webhooks.schemas import (
    PATTERNS,
    DeliveryList,
    DeliveryView,
    DeliveryWithPayload,
    State,
    WebhookBase,
    WebhookChangeBase,
    WebhookList,
    WebhookView,
    WebhookWithSecret,
)
from longtake.services.webhooks.service import PAGE_LIMIT, Webhooks, get_delivery, list_deliveries

Limit = Annotated[int, Query(ge=1, le=PAGE_LIMIT, description="How many at most.")]
Older = Annotated[UUID | None, Query(description="Only deliveries older than this one.")]
OfState = Annotated[State | None, Query(description="Only those in this state.")]

FOUND = (*CALLER, "REQUEST_INVALID", "NOT_FOUND")
WRITTEN = (*CALLER, *BODY, "TEXT_INVALID", "ADDRESS_REFUSED")


def routers(context: Context, engine: Engine) -> list[APIRouter]:
    """Return the routes of this process."""
    return [build_routes(Webhooks.of(context, engine), context.event_types)]


def build_routes(webhooks: Webhooks, types: Sequence[str]) -> APIRouter:
    """Return the routes of webhooks for events of these types."""
    router = APIRouter(prefix="/v1/webhooks", tags=["webhooks"], route_class=StrictRoute)
    _add_reading(router, webhooks)
    _add_changing(router, webhooks, patterns_of(delivered(types)))
    _add_secrets(router, webhooks)
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
        return WebhookView.model_validate(
            await webhooks.database.read(get_endpoint, user, str(webhook_id), as_user=user)
        )


def _add_changing(router: APIRouter, webhooks: Webhooks, known: Sequence[str]) -> None:
    Pattern = Annotated[  # noqa: N806 - a type
        str,
        AfterValidator(lambda pattern: check_pattern(pattern, known)),
        Field(json_schema_extra={"enum": list(known)}),
    ]
    Patterns = Annotated[list[Pattern], PATTERNS]  # noqa: N806

    class NewWebhook(WebhookBase):
        """A new webhook."""

        events: Patterns = []  # noqa: RUF012 - pydantic copies it

    class WebhookChange(WebhookChangeBase):
        """The fields to change; a field that is missing or null stays as it is."""

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


def _add_secrets(router: APIRouter, webhooks: Webhooks) -> None:
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
        return DeliveryWithPayload.model_validate(await webhooks.test(caller.user_id, str(webhook_id)))


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
        return DeliveryWithPayload.model_validate(
            await webhooks.redeliver(caller.user_id, str(webhook_id), str(delivery_id))
        )
