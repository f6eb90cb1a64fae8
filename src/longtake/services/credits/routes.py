"""`/v1/credits` and `/v1/admin`: users see their own credits, administrators grant and refund."""

from dataclasses import asdict
from datetime import datetime
from functools import partial
from typing import Annotated, Any, Literal
from uuid import UUID

from fastapi import APIRouter, Query
from pydantic import BaseModel, ConfigDict, Field

from longtake.capability import Context, SnapshotPart
from longtake.db import Database
from longtake.engine.engine import Engine
from longtake.http.problem_schema import BODY, CALLER, problems
from longtake.http.strict_json import StrictRoute
from longtake.services.accounts.current_caller import CurrentCaller
from longtake.services.credits.ledger import NAME_LIMIT, REASON_LIMIT, grant, refund
from longtake.services.credits.transfers import AMOUNT_LIMIT, HISTORY_LIMIT, Balance, balance, history

#: Strict: neither 5.0 nor true is an amount.
Amount = Annotated[int, Field(strict=True, ge=1, le=AMOUNT_LIMIT)]
ReasonText = Annotated[str, Field(min_length=1, max_length=REASON_LIMIT)]
Name = Annotated[str, Field(min_length=1, max_length=NAME_LIMIT)]
Kind = Literal["grant", "hold", "capture", "release", "refund", "withdraw"]

_TASK = "0199c1f2-7a40-7cc3-98c4-dc0c0c07398f"
_TRANSFER = "0199c1f2-9d11-7b0e-8f3a-5b1f0e9d2c44"


class BalanceView(BaseModel):
    """The credits that can be spent, and those that running tasks hold."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"available": 70, "held": 30}]})

    available: int
    held: int


_SHOWN_TRANSFER: dict[str, Any] = {
    "id": _TRANSFER,
    "kind": "hold",
    "amount": 30,
    "available": -30,
    "held": 30,
    "task_id": _TASK,
    "reason": "",
    "reference": None,
    "at": "2026-01-01T12:00:00Z",
}


class TransferView(BaseModel):
    """One movement of credits; `available` and `held` are its signed changes to each."""

    model_config = ConfigDict(json_schema_extra={"examples": [_SHOWN_TRANSFER]})

    id: str
    kind: Kind
    amount: int
    available: int
    held: int
    task_id: str | None
    reason: str
    reference: str | None
    at: datetime


class HistoryView(BaseModel):
    """Transfers, newest first; `next` is the `before` of the next page."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"transfers": [_SHOWN_TRANSFER], "next": _TRANSFER}]})

    transfers: list[TransferView]
    next: str | None


class GrantOrder(BaseModel):
    """A grant of credits to a user. The same `reference` again adds nothing."""

    model_config = ConfigDict(
        extra="forbid",
        json_schema_extra={
            "examples": [{"user_id": "ada", "amount": 100, "reason": "October", "reference": "payment 4711"}]
        },
    )

    user_id: Name
    amount: Amount
    reason: ReasonText
    reference: Name | None = None


class RefundOrder(BaseModel):
    """The reason of a refund."""

    model_config = ConfigDict(extra="forbid", json_schema_extra={"examples": [{"reason": "The result was unusable."}]})

    reason: ReasonText


class Receipt(BaseModel):
    """The transfer, new or made earlier with the same reference."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [{"transfer_id": _TRANSFER, "kind": "grant", "user_id": "ada", "amount": 100, "task_id": None}]
        }
    )

    transfer_id: str
    kind: Kind
    user_id: str
    amount: int
    task_id: str | None


def routers(context: Context, _engine: Engine) -> list[APIRouter]:
    """Return the routes of this process."""
    return [build_routes(context.database)]


def build_routes(database: Database) -> APIRouter:
    """Return the routes of credits."""
    router = APIRouter(prefix="/v1", tags=["credits"], route_class=StrictRoute)

    @router.get("/credits", summary="My balance", responses=problems(*CALLER))
    async def show_balance(caller: CurrentCaller) -> BalanceView:
        """Return the credits that can be spent, and those that running tasks hold. Scope `read`."""
        caller.require("read")
        found = await database.read(balance, caller.user_id, as_user=caller.user_id)
        return BalanceView(available=found.available, held=found.held)

    @router.get("/credits/history", summary="My transfers", responses=problems(*CALLER, "REQUEST_INVALID"))
    async def list_transfers(
        caller: CurrentCaller,
        before: Annotated[UUID | None, Query(description="Only transfers older than this one.")] = None,
        limit: Annotated[int, Query(ge=1, le=HISTORY_LIMIT, description="How many at most.")] = 50,
    ) -> HistoryView:
        """Return transfers, newest first. Scope `read`."""
        caller.require("read")
        cursor = None if before is None else str(before)
        page = await database.read(history, caller.user_id, cursor, limit, as_user=caller.user_id)
        return HistoryView(transfers=[TransferView.model_validate(one) for one in page.transfers], next=page.next)

    @router.post(
        "/admin/credits/grant",
        summary="Grant credits",
        responses=problems(*CALLER, *BODY, "AMOUNT_INVALID", "TEXT_INVALID", "STATE_CONFLICT"),
    )
    async def grant_credits(order: GrantOrder, caller: CurrentCaller) -> Receipt:
        """Grant credits to a user. Scope `admin`, or a service with `generate`. A reference makes it safe to repeat."""
        # A shop's service sells credits; it needs no other right of an administrator.
        caller.require("generate" if caller.role == "service" else "admin")

        made = await database.run(partial(grant, **order.model_dump(), made_by=caller.user_id))
        return Receipt.model_validate({"transfer_id": made.id, **asdict(made)})

    @router.post(
        "/admin/tasks/{task_id}/refund",
        summary="Refund a task",
        responses=problems(*CALLER, *BODY, "TEXT_INVALID", "NOT_FOUND", "STATE_CONFLICT"),
    )
    async def refund_task(task_id: UUID, order: RefundOrder, caller: CurrentCaller) -> Receipt:
        """Refund a completed task, once. Scope `admin`."""
        caller.require("admin")
        made = await database.run(partial(refund, task_id=str(task_id), made_by=caller.user_id, reason=order.reason))
        return Receipt.model_validate({"transfer_id": made.id, **asdict(made)})

    return router


class CreditSnapshot(BaseModel):
    """The member about credits."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"credits": {"available": 100, "held": 4}}]})

    credits: BalanceView


def part(_context: Context) -> SnapshotPart[Balance]:
    """Return the part."""
    return SnapshotPart(schema=CreditSnapshot, read=balance, show=_show)


async def _show(found: Balance) -> dict[str, Any]:
    return {"credits": asdict(found)}
