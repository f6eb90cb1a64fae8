"""Credits: a double-entry ledger that is only ever added to, holds, and each user's balance."""

from alembic import op
from sqlalchemy import BigInteger, CheckConstraint, Column, Integer, Text

from longtake.db.dialects import Identifier, Instant
from longtake.db.schema import append_only, is_postgresql, now_default, own_rows, partial_index, uuid_default


def upgrade() -> None:
    """Make the tables."""
    op.create_table(
        "credit_transfers",
        Column("id", Identifier, primary_key=True, server_default=uuid_default()),
        Column("kind", Text, nullable=False),
        Column("user_id", Text, nullable=False),
        Column("task_id", Identifier),
        Column("amount", BigInteger, nullable=False),
        Column("reason", Text, nullable=False, server_default=""),
        # Who did it when it was not the program itself, and their own reference: a payment's number, say.
        Column("made_by", Text),
        Column("reference", Text),
        Column("request_id", Text),
        Column("at", Instant, nullable=False, server_default=now_default()),
        CheckConstraint("kind IN ('grant', 'hold', 'capture', 'release', 'refund', 'withdraw')", name="transfers_kind"),
        CheckConstraint("amount > 0", name="credit_transfers_amount"),
        *_whole("credit_transfers", "amount"),
        CheckConstraint("(task_id IS NULL) = (kind IN ('grant', 'withdraw'))", name="credit_transfers_task"),
    )
    op.create_index("credit_transfers_user", "credit_transfers", ["user_id", "id"])
    partial_index("credit_transfers_once", "credit_transfers", ["task_id", "kind"], "task_id IS NOT NULL", unique=True)
    # A hold ends once: captured or released, never both.
    partial_index(
        "credit_transfers_ends", "credit_transfers", ["task_id"], "kind IN ('capture', 'release')", unique=True
    )
    partial_index(
        "credit_transfers_reference", "credit_transfers", ["kind", "reference"], "reference IS NOT NULL", unique=True
    )
    op.create_table(
        "credit_entries",
        Column("number", BigInteger if is_postgresql() else Integer, primary_key=True, autoincrement=True),
        # Both are written by one statement and never changed; a check for each entry would cost as much as the entry.
        Column("transfer_id", Identifier, nullable=False),
        Column("account", Text, nullable=False),
        # Whose account; the program's own (issued, earned) have none.
        Column("user_id", Text),
        Column("amount", BigInteger, nullable=False),
        CheckConstraint("account IN ('available', 'held', 'issued', 'earned')", name="credit_entries_account"),
        CheckConstraint("(user_id IS NOT NULL) = (account IN ('available', 'held'))", name="credit_entries_user"),
        CheckConstraint("amount <> 0", name="credit_entries_amount"),
        *_whole("credit_entries", "amount"),
        sqlite_autoincrement=True,
    )
    op.create_index("credit_entries_transfer", "credit_entries", ["transfer_id"])
    partial_index("credit_entries_user_account", "credit_entries", ["user_id", "account"], "user_id IS NOT NULL")
    op.create_table(
        "credit_balances",
        Column("user_id", Text, primary_key=True),
        Column("available", BigInteger, nullable=False, server_default="0"),
        Column("held", BigInteger, nullable=False, server_default="0"),
        Column("changed_at", Instant, nullable=False, server_default=now_default()),
        # Beside the balance: a submit need not count unfinished tasks.
        Column("open_holds", Integer, nullable=False, server_default="0"),
        *_whole("credit_balances", "available", "held"),
        CheckConstraint("available >= 0", name="credit_balances_available"),
        CheckConstraint("held >= 0", name="credit_balances_held"),
        CheckConstraint("open_holds >= 0", name="credit_balances_open_holds"),
    )
    op.create_table(
        "credit_holds",
        Column("task_id", Identifier, primary_key=True),
        Column("user_id", Text, nullable=False),
        Column("amount", BigInteger, nullable=False),
        Column("state", Text, nullable=False, server_default="open"),
        Column("opened_at", Instant, nullable=False, server_default=now_default()),
        Column("ended_at", Instant),
        CheckConstraint("state IN ('open', 'captured', 'released')", name="credit_holds_state"),
        CheckConstraint("(state = 'open') = (ended_at IS NULL)", name="credit_holds_ended"),
        CheckConstraint("amount >= 0", name="credit_holds_amount"),
        *_whole("credit_holds", "amount"),
    )
    partial_index("credit_holds_open", "credit_holds", ["user_id"], "state = 'open'")
    own_rows("credit_transfers", "credit_entries", "credit_balances", "credit_holds")
    append_only("credit_transfers", "credit_entries")


def downgrade() -> None:
    """Remove them."""
    for table in ("credit_holds", "credit_balances", "credit_entries", "credit_transfers"):
        op.drop_table(table)


def _whole(table: str, *columns: str) -> list[CheckConstraint]:
    """Let nothing but whole numbers in: SQLite would keep a fraction in a column of integers as it is."""
    if is_postgresql():
        return []
    return [CheckConstraint(f"typeof({column}) = 'integer'", name=f"{table}_{column}_whole") for column in columns]
