"""Operators' actions on credits."""

from collections.abc import Sequence
from dataclasses import asdict
from typing import Annotated, Any

from pydantic import Field

from longtake.actions import Action, CreditHolder, Identifier, Limit, Name, Operator, Sentence
from longtake.db import Transaction
from longtake.engine.engine import Engine
from longtake.services.credits import Transfer, audit, balance, grant, history, refund, withdraw
from longtake.services.credits.transfers import AMOUNT_LIMIT

#: Strict: neither 5.0 nor true is a number of credits.
Amount = Annotated[int, Field(strict=True, ge=1, le=AMOUNT_LIMIT)]


def credits_balance(tx: Transaction, _engine: Engine, *, user_id: Name) -> dict[str, Any]:
    """Show how many credits a user can spend, and how many unfinished tasks hold."""
    return {"user_id": user_id, **asdict(balance(tx, user_id))}


def credits_history(
    tx: Transaction, _engine: Engine, *, user_id: Name, before: Identifier | None = None, limit: Limit = 50
) -> dict[str, Any]:
    """List a user's transfers, newest first; pass `next` as `before` to get the next page."""
    return asdict(history(tx, user_id, before, limit))


def credits_grant(
    tx: Transaction,
    _engine: Engine,
    *,
    user_id: Name,
    amount: Amount,
    reason: Sentence,
    by: Name,
    reference: Name | None = None,
) -> dict[str, Any]:
    """Give a user credits; repeating a `reference` adds nothing."""
    return _receipt(tx, grant(tx, user_id=user_id, amount=amount, reason=reason, made_by=by, reference=reference))


def credits_withdraw(
    tx: Transaction,
    _engine: Engine,
    *,
    user_id: Name,
    amount: Amount,
    reason: Sentence,
    by: Name,
    reference: Name | None = None,
) -> dict[str, Any]:
    """Take back available credits; repeating a `reference` takes nothing."""
    return _receipt(tx, withdraw(tx, user_id=user_id, amount=amount, reason=reason, made_by=by, reference=reference))


def credits_refund(
    tx: Transaction, _engine: Engine, *, task_id: Identifier, reason: Sentence, by: Name
) -> dict[str, Any]:
    """Refund the charge of a completed task, once."""
    return _receipt(tx, refund(tx, task_id=task_id, made_by=by, reason=reason))


def credits_audit(tx: Transaction, _engine: Engine, holders: Sequence[CreditHolder]) -> dict[str, Any]:
    """Check that ledger, balances, holds and tasks agree; `findings` is empty if they do."""
    return {"findings": [asdict(finding) for finding in audit(tx, holders)]}


def _receipt(tx: Transaction, made: Transfer) -> dict[str, Any]:
    return {
        "transfer_id": made.id,
        "kind": made.kind,
        "user_id": made.user_id,
        "amount": made.amount,
        "task_id": made.task_id,
        "balance": asdict(balance(tx, made.user_id)),
    }


OPERATOR = Operator(
    actions=[
        Action("credits.balance", credits_balance),
        Action("credits.history", credits_history),
        Action("credits.grant", credits_grant, writes=True, for_admins=True),
        Action("credits.withdraw", credits_withdraw, writes=True, for_admins=True),
        Action("credits.refund", credits_refund, writes=True, for_admins=True),
        Action("credits.audit", credits_audit, takes=("credit_holders",)),
    ]
)
