"""A user's endpoints and the event types each one gets. Another user's endpoint is answered as not found.

The tables of endpoints and deliveries are here too: an endpoint that is disabled fails its deliveries.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Literal

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    ColumnElement,
    Double,
    Integer,
    Table,
    Text,
    delete,
    func,
    insert,
    literal_column,
    select,
    update,
)

from longtake.db import Transaction
from longtake.db.dialects import NOW, POSTGRESQL, Identifier, Instant, Json, later
from longtake.engine.engine import Engine
from longtake.engine.events import append_event
from longtake.engine.queries import plain
from longtake.engine.tables import metadata
from longtake.errors import NotFound, StateConflict

webhook_endpoints = Table(
    "webhook_endpoints",
    metadata,
    Column("id", Identifier, primary_key=True),
    Column("user_id", Text, nullable=False),
    Column("url", Text, nullable=False),
    Column("description", Text, nullable=False),
    Column("events", Json, nullable=False),
    Column("secret", Text, nullable=False),
    Column("previous_secret", Text),
    Column("previous_ends_at", Instant),
    Column("enabled", Boolean, nullable=False),
    Column("disabled_reason", Text),
    Column("since_transaction", BigInteger, nullable=False),
    Column("since_sequence", BigInteger, nullable=False),
    Column("since_snapshot", Text),
    Column("last_success_at", Instant),
    Column("created_at", Instant, nullable=False),
    Column("changed_at", Instant, nullable=False),
)

webhook_deliveries = Table(
    "webhook_deliveries",
    metadata,
    Column("id", Identifier, primary_key=True),
    Column("endpoint_id", Identifier, nullable=False),
    Column("user_id", Text, nullable=False),
    Column("event", Text),
    Column("type", Text, nullable=False),
    Column("payload", Text, nullable=False),
    Column("state", Text, nullable=False),
    Column("attempts", Integer, nullable=False),
    Column("status_code", Integer),
    Column("seconds", Double),
    Column("error", Text),
    Column("next_at", Instant),
    Column("created_at", Instant, nullable=False),
    Column("ended_at", Instant),
)

#: Deliveries in each state, written as the partial indexes have it.
IN_STATE: dict[str, ColumnElement[bool]] = {
    state: literal_column(f"webhook_deliveries.state = '{state}'") for state in ("pending", "delivered", "failed")
}

MOST_ENDPOINTS = 20
MOST_PATTERNS = 50
#: After a rotation, the previous secret signs as well for this long.
OVERLAP_SECONDS = 86_400.0

#: It answered 410; it accepted nothing for three days; its owner disabled it.
DisableReason = Literal["gone", "failing", "owner"]

SHOWN = tuple(webhook_endpoints.c[name] for name in (
    "id", "url", "description", "events", "enabled", "disabled_reason", "previous_ends_at", "last_success_at",
    "created_at", "changed_at",
))  # fmt: skip


def create_endpoint(
    tx: Transaction, user_id: str, endpoint_id: str, url: str, description: str, events: Sequence[str], sealed: str
) -> dict[str, Any]:
    """Create an endpoint with a sealed secret. It gets the events written from now on."""
    if tx.dialect == POSTGRESQL:
        # Without the lock, two concurrent requests would both find room for one more.
        tx.sql("SELECT pg_advisory_xact_lock(hashtext(%s))", (f"webhooks of {user_id}",))
    found = select(func.count()).where(webhook_endpoints.c.user_id == user_id)
    if tx.execute(found).scalar_one() >= MOST_ENDPOINTS:
        raise StateConflict(f"This user already has {MOST_ENDPOINTS} webhooks.", hint="Delete one first.")
    values = {
        "id": endpoint_id,
        "user_id": user_id,
        "url": url,
        "description": description,
        "events": list(events),
        "secret": sealed,
        "enabled": True,
        "created_at": NOW,
        "changed_at": NOW,
        **_from_now_on(tx),
    }
    return plain(tx.execute(insert(webhook_endpoints).values(**values).returning(*SHOWN)).one())


def list_endpoints(tx: Transaction, user_id: str) -> list[dict[str, Any]]:
    """Return the user's endpoints, the newest first."""
    query = select(*SHOWN).where(webhook_endpoints.c.user_id == user_id)
    return [plain(row) for row in tx.execute(query.order_by(webhook_endpoints.c.id.desc()))]


def get_endpoint(tx: Transaction, user_id: str, endpoint_id: str) -> dict[str, Any]:
    """Return one of the user's endpoints."""
    row = tx.execute(select(*SHOWN).where(*_own(user_id, endpoint_id))).first()
    if row is None:
        raise no_endpoint(endpoint_id)
    return plain(row)


def change_endpoint(tx: Transaction, user_id: str, endpoint_id: str, changes: Mapping[str, Any]) -> dict[str, Any]:
    """Change the given fields. Events from while it was disabled are not sent later."""
    was_enabled = get_endpoint(tx, user_id, endpoint_id)["enabled"]
    values = dict(changes)
    enabled = values.pop("enabled", was_enabled)
    if enabled and not was_enabled:
        values |= {"enabled": True, "disabled_reason": None, **_from_now_on(tx)}
    elif was_enabled and not enabled:
        disable_endpoint(tx, endpoint_id, "owner")
    if values:
        tx.execute(update(webhook_endpoints).where(*_own(user_id, endpoint_id)).values(**values, changed_at=NOW))
    return get_endpoint(tx, user_id, endpoint_id)


def rotate_secret(tx: Transaction, user_id: str, endpoint_id: str, sealed: str) -> dict[str, Any]:
    """Sign with a new secret from now on, and for a day with the previous one as well."""
    values = {
        "secret": sealed,
        "previous_secret": webhook_endpoints.c.secret,
        "previous_ends_at": later(OVERLAP_SECONDS),
        "changed_at": NOW,
    }
    change = update(webhook_endpoints).where(*_own(user_id, endpoint_id)).values(**values)
    row = tx.execute(change.returning(*SHOWN)).first()
    if row is None:
        raise no_endpoint(endpoint_id)
    return plain(row)


def delete_endpoint(tx: Transaction, user_id: str, endpoint_id: str) -> None:
    """Delete an endpoint with its deliveries. Their jobs then find nothing to do."""
    if tx.execute(delete(webhook_endpoints).where(*_own(user_id, endpoint_id))).rowcount == 0:
        raise no_endpoint(endpoint_id)


def remove_endpoints_of(tx: Transaction, _engine: Engine, user_id: str, _before: datetime) -> bool:
    """Delete all endpoints of a user, which are few."""
    tx.execute(delete(webhook_endpoints).where(webhook_endpoints.c.user_id == user_id))
    return False


def disable_endpoint(tx: Transaction, endpoint_id: str, reason: DisableReason) -> None:
    """Disable an endpoint, fail its pending deliveries, and write the event `webhook.disabled`."""
    enabled = (webhook_endpoints.c.id == endpoint_id, webhook_endpoints.c.enabled)
    change = update(webhook_endpoints).where(*enabled)
    values = {"enabled": False, "disabled_reason": reason, "changed_at": NOW}
    user_id = tx.execute(change.values(**values).returning(webhook_endpoints.c.user_id)).scalar()
    if user_id is None:
        return
    pending = (webhook_deliveries.c.endpoint_id == endpoint_id, IN_STATE["pending"])
    over = {"state": "failed", "error": "The webhook was disabled.", "next_at": None, "ended_at": NOW}
    tx.execute(update(webhook_deliveries).where(*pending).values(**over))
    append_event(tx, "webhook.disabled", subject=endpoint_id, user_id=user_id, data={"reason": reason})


def no_endpoint(endpoint_id: str) -> NotFound:
    """Return the same error for an endpoint that does not exist and for another user's."""
    return NotFound(f"There is no webhook {endpoint_id}.", hint="GET /v1/webhooks lists yours.")


def _own(user_id: str, endpoint_id: str) -> tuple[Any, Any]:
    return webhook_endpoints.c.id == endpoint_id, webhook_endpoints.c.user_id == user_id


def _from_now_on(tx: Transaction) -> dict[str, Any]:
    """Return the end of the log: every event this transaction does not see comes after it, or was being written."""
    if tx.dialect == POSTGRESQL:
        snapshot = tx.sql("SELECT pg_current_snapshot()::text")[0][0]
        return {"since_transaction": int(snapshot.split(":")[0]), "since_sequence": 0, "since_snapshot": snapshot}
    return {"since_transaction": 0, "since_sequence": tx.sql("SELECT coalesce(max(sequence), 0) FROM events")[0][0]}


def delivered(types: Sequence[str]) -> list[str]:
    """Return those of the types that are sent: not those about webhooks, or a failing endpoint could cause its own."""
    return [one for one in types if not one.startswith("webhook.")]


def families_of(types: Sequence[str]) -> frozenset[str]:
    """Return the families of types that are sent."""
    return frozenset(one.partition(".")[0] for one in delivered(types))
