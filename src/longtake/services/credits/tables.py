"""The tables of the ledger. Migrations create them; this file describes them to SQLAlchemy Core."""

from sqlalchemy import BigInteger, Column, Integer, Table, Text, column, table

from longtake.db.dialects import Identifier, Instant
from longtake.engine.tables import metadata

credit_transfers = Table(
    "credit_transfers",
    metadata,
    Column("id", Identifier, primary_key=True),
    Column("kind", Text, nullable=False),
    Column("user_id", Text, nullable=False),
    Column("task_id", Identifier),
    Column("amount", BigInteger, nullable=False),
    Column("reason", Text, nullable=False),
    Column("made_by", Text),
    Column("reference", Text),
    Column("request_id", Text),
    Column("at", Instant, nullable=False),
)

#: Users' balances, kept beside the entries. The program's own accounts have no row: every transfer would wait for it.
credit_balances = Table(
    "credit_balances",
    metadata,
    Column("user_id", Text, primary_key=True),
    Column("available", BigInteger, nullable=False),
    Column("held", BigInteger, nullable=False),
    #: As many holds of the user are open: a submit need not count them.
    Column("open_holds", Integer, nullable=False),
    Column("changed_at", Instant, nullable=False),
)

credit_holds = Table(
    "credit_holds",
    metadata,
    Column("task_id", Identifier, primary_key=True),
    Column("user_id", Text, nullable=False),
    Column("amount", BigInteger, nullable=False),
    Column("state", Text, nullable=False),
    Column("opened_at", Instant, nullable=False),
    Column("ended_at", Instant),
)

#: The only column of tasks that the ledger writes: the refunded amount.
tasks = table("tasks", column("id", Identifier), column("credits_refunded", BigInteger))
