"""Requests and responses of the credit routes."""

from datetime import datetime
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from longtake.services.credits.ledger import NAME_LIMIT, REASON_LIMIT
from longtake.services.credits.transfers import AMOUNT_LIMIT

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
