"""The number of a user's open holds, beside the balance: a submit need not count unfinished tasks."""

from alembic import op


def upgrade() -> None:
    """Add the column, and count what is open."""
    op.execute(
        "ALTER TABLE credit_balances ADD COLUMN open_holds integer NOT NULL DEFAULT 0"
        " CONSTRAINT credit_balances_open_holds CHECK (open_holds >= 0)"
    )
    # Somebody without credits may have free tasks.
    op.execute(
        "INSERT INTO credit_balances (user_id, open_holds)"
        " SELECT user_id, count(*) FROM credit_holds WHERE state = 'open' GROUP BY user_id"
        " ON CONFLICT (user_id) DO UPDATE SET open_holds = excluded.open_holds"
    )


def downgrade() -> None:
    """Remove it."""
    op.execute("ALTER TABLE credit_balances DROP COLUMN open_holds")
