"""Requests and responses of the webhook routes."""

from datetime import datetime
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from longtake.services.webhooks.endpoints import MOST_PATTERNS

URL_LIMIT = 2_000
DESCRIPTION_LIMIT = 200

Url = Annotated[str, Field(min_length=1, max_length=URL_LIMIT, description="Where events are sent: https or http.")]
Description = Annotated[str, Field(max_length=DESCRIPTION_LIMIT, description="A note for yourself.")]
PATTERNS = Field(max_length=MOST_PATTERNS, description="Types such as `task.completed`, or `task.*`; none means all.")
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


class WebhookBase(BaseModel):
    """A new webhook; which events it can ask for, the route knows."""

    model_config = ConfigDict(
        extra="forbid",
        json_schema_extra={"examples": [{"url": "https://example.com/longtake", "events": ["task.completed"]}]},
    )

    url: Url
    description: Description = ""


class WebhookChangeBase(BaseModel):
    """The fields to change; a field that is missing or null stays as it is."""

    model_config = ConfigDict(extra="forbid", json_schema_extra={"examples": [{"enabled": True}]})

    url: Url | None = None
    description: Description | None = None
    enabled: bool | None = Field(default=None, strict=True, description="False sends nothing more; true sends again.")


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
