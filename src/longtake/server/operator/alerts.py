"""Actions on alerts, and the overview of the whole service."""

from importlib.metadata import version
from typing import Any

from sqlalchemy import func, select

from longtake.db import Transaction
from longtake.engine.engine import Engine
from longtake.engine.queries import count_waiting, list_lanes, list_workers
from longtake.server.operator.arguments import AlertState, Identifier, Identifiers, Limit, Name
from longtake.services.alerts import acknowledge_alert, alerts, list_alerts, resolve_alert_by_id


def alerts_list(
    tx: Transaction,
    _engine: Engine,
    *,
    state: AlertState | None = None,
    before: Identifier | None = None,
    limit: Limit = 100,
) -> dict[str, Any]:
    """List alerts, newest first; without `state`, only unresolved ones."""
    return {"alerts": list_alerts(tx, state, before=before, limit=limit)}


def alerts_acknowledge(tx: Transaction, _engine: Engine, *, ids: Identifiers, by: Name) -> dict[str, Any]:
    """Record who is handling alerts; they stay until they are resolved."""
    for alert_id in ids:
        acknowledge_alert(tx, alert_id, by)
    return {"acknowledged": ids}


def alerts_resolve(tx: Transaction, _engine: Engine, *, ids: Identifiers) -> dict[str, Any]:
    """Mark alerts as resolved; if the problem returns, it raises a new alert."""
    for alert_id in ids:
        resolve_alert_by_id(tx, alert_id)
    return {"resolved": ids}


def health(tx: Transaction, engine: Engine) -> dict[str, Any]:
    """Show an overview: waiting and running jobs, live workers, paused lanes and unresolved alerts."""
    live = select(alerts.c.severity, func.count().label("number")).where(alerts.c.state != "resolved")
    by_severity = {row.severity: row.number for row in tx.execute(live.group_by(alerts.c.severity))}
    return {
        "version": version("longtake"),
        "database": tx.dialect,
        "jobs": count_waiting(tx, engine),
        "workers": sum(worker["alive"] for worker in list_workers(tx, engine)),
        "paused_lanes": [lane["name"] for lane in list_lanes(tx, engine) if lane["paused"]],
        "alerts": by_severity,
    }
