"""Alerts: problems that a person should look at, written in the transaction that found them.

The same problem (code and subject) is one row with a count until the alert is resolved; after that it is a new alert.
So a fault that repeats a thousand times a minute is one line on a screen, not a thousand.
"""

from enum import StrEnum
from typing import Any

import structlog
from sqlalchemy import Column, Integer, Table, Text, select, text, update
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.sql.elements import ColumnElement

from longtake.clock import new_id
from longtake.db import Transaction
from longtake.db.dialects import NOW, SQLITE, Identifier, Instant
from longtake.engine.events import append_event
from longtake.engine.queries import plain
from longtake.engine.tables import metadata
from longtake.errors import NotFound, StateConflict

LIST_LIMIT = 500
STATES = ("open", "acknowledged", "resolved")

log = structlog.get_logger(__name__)

alerts = Table(
    "alerts",
    metadata,
    Column("id", Identifier, primary_key=True),
    Column("severity", Text, nullable=False),
    Column("code", Text, nullable=False),
    Column("subject", Text, nullable=False),
    Column("message", Text, nullable=False),
    Column("state", Text, nullable=False),
    Column("count", Integer, nullable=False),
    Column("first_at", Instant, nullable=False),
    Column("last_at", Instant, nullable=False),
    Column("acknowledged_by", Text),
    Column("resolved_at", Instant),
)


class Severity(StrEnum):
    """How urgent an alert is."""

    CRITICAL = "CRITICAL"
    WARNING = "WARNING"
    INFO = "INFO"


def raise_alert(tx: Transaction, severity: Severity, code: str, message: str, subject: str = "") -> str:
    """Write an alert, or count it on the live one with the newest message; return its id."""
    first = (sqlite if tx.dialect == SQLITE else postgresql).insert(alerts)
    values = {"id": new_id(), "severity": str(severity), "code": code, "subject": subject, "message": message}
    again = {
        "count": alerts.c.count + 1,
        "last_at": NOW,
        "message": first.excluded.message,
        "severity": first.excluded.severity,
    }
    statement = first.values(**values, state="open", count=1, first_at=NOW, last_at=NOW).on_conflict_do_update(
        index_elements=["code", "subject"], index_where=text("state <> 'resolved'"), set_=again
    )
    row = tx.execute(statement.returning(alerts.c.id, alerts.c.count.label("times"))).one()
    if row.times == 1:
        tx.after_commit(
            lambda: log.warning("alert", action="alert", severity=str(severity), code=code, message=message)
        )
        append_event(tx, "alert.raised", subject=row.id, data={"severity": str(severity), "code": code, "of": subject})
    return str(row.id)


def resolve_alert(tx: Transaction, code: str, subject: str = "") -> bool:
    """Resolve a live alert; return whether there was one."""
    return _resolve(tx, alerts.c.code == code, alerts.c.subject == subject, alerts.c.state != "resolved")


def resolve_alert_by_id(tx: Transaction, alert_id: str) -> None:
    """Resolve the alert with this id. A resolved alert stays as it is."""
    if not _resolve(tx, alerts.c.id == alert_id, alerts.c.state != "resolved"):
        _require(tx, alert_id)


def acknowledge_alert(tx: Transaction, alert_id: str, by: str) -> None:
    """Record that someone is working on the alert. It stays live until resolved."""
    live = (alerts.c.id == alert_id, alerts.c.state != "resolved")
    change = update(alerts).where(*live).values(state="acknowledged", acknowledged_by=by)
    if tx.execute(change).rowcount == 0:
        _require(tx, alert_id)
        raise StateConflict(f"The alert {alert_id} is already resolved.")
    append_event(tx, "alert.acknowledged", subject=alert_id, data={"by": by})


def list_alerts(
    tx: Transaction, state: str | None = None, *, before: str | None = None, limit: int = 100
) -> list[dict[str, Any]]:
    """Return alerts as plain data, newest first; without a state, those that are not resolved."""
    query = select(alerts).where(alerts.c.state == state if state else alerts.c.state != "resolved")
    if before is not None:
        query = query.where(alerts.c.id < before)
    rows = tx.execute(query.order_by(alerts.c.id.desc()).limit(min(limit, LIST_LIMIT)))
    return [plain(row) for row in rows]


def _resolve(tx: Transaction, *which: ColumnElement[bool]) -> bool:
    change = update(alerts).where(*which).values(state="resolved", resolved_at=NOW)
    resolved = tx.execute(change.returning(alerts.c.id, alerts.c.code)).all()
    for row in resolved:
        append_event(tx, "alert.resolved", subject=row.id, data={"code": row.code})
    return bool(resolved)


def _require(tx: Transaction, alert_id: str) -> None:
    if tx.execute(select(alerts.c.id).where(alerts.c.id == alert_id)).first() is None:
        raise NotFound(f"There is no alert {alert_id!r}.", hint="`longtake alerts list` shows all alerts.")
