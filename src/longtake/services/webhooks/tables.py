"""The tables of webhooks. Migrations create them; this file describes them to SQLAlchemy Core."""

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    ColumnElement,
    Double,
    Integer,
    SmallInteger,
    Table,
    Text,
    literal_column,
)

from longtake.db.dialects import Identifier, Instant, Json
from longtake.engine.tables import metadata

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

#: One row: how far the log of events has been read.
webhook_cursor = Table(
    "webhook_cursor",
    metadata,
    Column("id", SmallInteger, primary_key=True),
    Column("transaction_id", BigInteger, nullable=False),
    Column("sequence", BigInteger, nullable=False),
)
