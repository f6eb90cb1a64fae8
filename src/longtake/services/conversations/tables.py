"""The tables of conversations. Migrations create them; this file describes them to SQLAlchemy Core."""

from sqlalchemy import Column, Integer, Table, Text

from longtake.db.dialects import Identifier, Instant, Json
from longtake.engine.tables import metadata

conversations = Table(
    "conversations",
    metadata,
    Column("id", Identifier, primary_key=True),
    Column("user_id", Text, nullable=False),
    Column("title", Text, nullable=False),
    Column("unread", Integer, nullable=False),
    Column("created_at", Instant, nullable=False),
    Column("changed_at", Instant, nullable=False),
)

messages = Table(
    "messages",
    metadata,
    Column("id", Identifier, primary_key=True),
    Column("conversation_id", Identifier, nullable=False),
    Column("user_id", Text, nullable=False),
    Column("role", Text, nullable=False),
    Column("state", Text, nullable=False),
    Column("text", Text, nullable=False),
    Column("task_id", Identifier),
    Column("data", Json),
    Column("created_at", Instant, nullable=False),
    Column("changed_at", Instant, nullable=False),
)
