"""`/v1/credits` and `/v1/admin`: users see their own credits, administrators grant and refund."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated, Any
from uuid import UUID

from fastapi import APIRouter, Query
from pydantic import BaseModel, ConfigDict

from longtake.capability import Context, SnapshotPart
from longtake.db import Database, Transaction
from longtake.engine.engine import Engine
from longtake.http.problem_schema import BODY, CALLER, problems
from longtake.http.strict_json import StrictRoute
from longtake.services.accounts.current_caller import CurrentCaller
from longtake.services.credits.ledger import grant, refund
from longtake.services.credits.schemas import BalanceView, GrantOrder, HistoryView, Receipt, RefundOrder, TransferView
from longtake.services.credits.transfers import HISTORY_LIMIT, Balance, Transfer, balance, history


def routers(context: Context, _engine: Engine) -> list[APIRouter]:
    """Return the routes of this process."""
    return [build_routes(context.database)]


def build_routes(database: Database) -> APIRouter:
    """Return the routes of credits."""
    router = APIRouter(prefix="/v1", tags=["credits"], route_class=StrictRoute)
    _add_reading(router, database)
    _add_changing(router, database)
    return router


def _add_reading(router: APIRouter, database: Database) -> None:
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


def _add_changing(router: APIRouter, database: Database) -> None:
    @router.post(
        "/admin/credits/grant",
        summary="Grant credits",
        responses=problems(*CALLER, *BODY, "AMOUNT_INVALID", "TEXT_INVALID", "STATE_CONFLICT"),
    )
    async def grant_credits(order: GrantOrder, caller: CurrentCaller) -> Receipt:
        """Grant credits to a user. Scope `admin`, or a service with `generate`. A reference makes it safe to repeat."""
        # A shop's service sells credits; it needs no other right of an administrator.
        caller.require("generate" if caller.role == "service" else "admin")

        def write(tx: Transaction) -> Transfer:
            return grant(
                tx,
                user_id=order.user_id,
                amount=order.amount,
                reason=order.reason,
                made_by=caller.user_id,
                reference=order.reference,
            )

        return _receipt(await database.run(write))

    @router.post(
        "/admin/tasks/{task_id}/refund",
        summary="Refund a task",
        responses=problems(*CALLER, *BODY, "TEXT_INVALID", "NOT_FOUND", "STATE_CONFLICT"),
    )
    async def refund_task(task_id: UUID, order: RefundOrder, caller: CurrentCaller) -> Receipt:
        """Refund a completed task, once. Scope `admin`."""
        caller.require("admin")

        def write(tx: Transaction) -> Transfer:
            return refund(tx, task_id=str(task_id), made_by=caller.user_id, reason=order.reason)

        return _receipt(await database.run(write))


def _receipt(made: Transfer) -> Receipt:
    return Receipt.model_validate(
        {
            "transfer_id": made.id,
            "kind": made.kind,
            "user_id": made.user_id,
            "amount": made.amount,
            "task_id": made.task_id,
        }
    )


class CreditSnapshot(BaseModel):
    """The member about credits."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"credits": {"available": 100, "held": 4}}]})

    credits: BalanceView


def part(_context: Context) -> SnapshotPart[Balance]:
    """Return the part."""
    return SnapshotPart(schema=CreditSnapshot, read=balance, show=_show)


async def _show(found: Balance) -> dict[str, Any]:
    return {"credits": asdict(found)}
