"""What a try at a delivery came to, and the rows it changes, in the transaction that ends the try."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sqlalchemy import or_, select, update

from longtake.db.dialects import NOW, later
from longtake.engine.kinds import Settlement
from longtake.engine.outcomes import Cancelled, Done, Fail, Outcome, Retry
from longtake.services.webhooks.endpoints import disable_endpoint
from longtake.services.webhooks.tables import webhook_deliveries, webhook_endpoints

if TYPE_CHECKING:
    from longtake.db import Transaction

#: What users read when a try failed on our side; the job's own error has the details for operators.
OUR_TROUBLE = "Something went wrong here, not at your server."


@dataclass(frozen=True, slots=True)
class Report:
    """One request that was sent, or could not be."""

    delivery_id: str
    endpoint_id: str
    seconds: float
    status_code: int | None = None
    error: str | None = None
    #: The receiver wants no more, ever.
    gone: bool = False
    #: Somebody only wanted to see: what comes of it says nothing about the endpoint.
    is_test: bool = False


def settle(tx: Transaction, settlements: Sequence[Settlement]) -> None:
    """Write what the tries came to. A delivery that ended otherwise in the meantime stays as it is."""
    _lock_endpoints(tx, settlements)
    delivered: set[str] = set()
    for one in sorted(settlements, key=lambda settlement: str(settlement.job.args["delivery_id"])):
        report = one.outcome.data if isinstance(one.outcome.data, Report) else None
        _note(tx, one.job.args["delivery_id"], one.outcome, report)
        if report is not None and isinstance(one.outcome, Done) and not report.is_test:
            delivered.add(report.endpoint_id)
    if delivered:
        reached = webhook_endpoints.c.id.in_(delivered)
        tx.execute(update(webhook_endpoints).where(reached).values(last_success_at=NOW))
    for one in settlements:
        if isinstance(one.outcome, Fail) and isinstance(one.outcome.data, Report):
            _judge_endpoint(tx, one.outcome.data)


def _lock_endpoints(tx: Transaction, settlements: Sequence[Settlement]) -> None:
    """Lock endpoints before deliveries, and in one order, so that two workers cannot deadlock."""
    ended = [one.outcome.data for one in settlements if isinstance(one.outcome, Done | Fail)]
    ids = {report.endpoint_id for report in ended if isinstance(report, Report)}
    if ids:
        which = select(webhook_endpoints.c.id).where(webhook_endpoints.c.id.in_(ids))
        tx.execute(which.order_by(webhook_endpoints.c.id).with_for_update(key_share=True)).all()


def _note(tx: Transaction, delivery_id: str, outcome: Outcome, report: Report | None) -> None:
    values: dict[str, Any] = {}
    if report is not None:
        values = {
            "attempts": webhook_deliveries.c.attempts + 1,
            "status_code": report.status_code,
            "seconds": report.seconds,
            "error": report.error,
        }
    over = {"next_at": None, "ended_at": NOW}
    match outcome:
        case Done():
            values |= {"state": "delivered", **over} if report is not None else {}
        case Retry(after=after):
            values |= {"next_at": None if after is None else later(after)}
            values.setdefault("error", OUR_TROUBLE)
        case Fail():
            values |= {"state": "failed", **over}
            values.setdefault("error", OUR_TROUBLE)
        case Cancelled():
            values |= {"state": "failed", "error": "It was cancelled.", **over}
    if values:
        pending = (webhook_deliveries.c.id == delivery_id, webhook_deliveries.c.state == "pending")
        tx.execute(update(webhook_deliveries).where(*pending).values(**values))


def _judge_endpoint(tx: Transaction, report: Report) -> None:
    """Disable an endpoint that wants no more, or that took nothing for as long as one delivery was tried."""
    if report.is_test:
        return
    if report.gone:
        disable_endpoint(tx, report.endpoint_id, "gone")
        return
    made_at = select(webhook_deliveries.c.created_at).where(webhook_deliveries.c.id == report.delivery_id)
    last = webhook_endpoints.c.last_success_at
    silent = or_(last.is_(None), last < made_at.scalar_subquery())
    which = select(webhook_endpoints.c.id).where(webhook_endpoints.c.id == report.endpoint_id, silent)
    if tx.execute(which).first() is not None:
        disable_endpoint(tx, report.endpoint_id, "failing")
