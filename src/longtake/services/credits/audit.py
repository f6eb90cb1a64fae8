"""The audit: checks that ledger, balances, holds and what they are for agree. It only reads.

Each check is a query that both databases understand, and each row it returns is wrong: the ids of a task, a user and a
transfer, where known. All read whole tables in one pass: audits are rare, but must finish with millions of entries.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from sqlalchemy import text

from longtake.actions import CreditHolder
from longtake.db import Transaction
from longtake.db.dialects import SQLITE
from longtake.services.credits.transfers import WAYS


@dataclass(frozen=True, slots=True)
class Check:
    """One check; `sentence` says what a row of its query means."""

    code: str
    sentence: str
    query: str


_ACCOUNT = " ".join(
    f"WHEN '{kind}' THEN CASE WHEN entry.amount > 0 THEN '{target}' ELSE '{origin}' END"
    for kind, (origin, target) in WAYS.items()
)

CHECKS = (
    # The ledger by itself.
    Check(
        "LEDGER_UNBALANCED",
        "All entries together do not sum to zero.",
        "SELECT NULL, NULL, NULL FROM (SELECT sum(amount) AS total FROM credit_entries) AS everything WHERE total <> 0",
    ),
    Check(
        "TRANSFER_UNBALANCED",
        "The transfer does not have two entries of its amount that sum to zero.",
        """
        SELECT transfer.task_id, transfer.user_id, transfer.id FROM credit_transfers AS transfer LEFT JOIN (
            SELECT transfer_id, count(*) AS number, sum(amount) AS total, max(amount) AS most
            FROM credit_entries GROUP BY transfer_id
        ) AS entries ON entries.transfer_id = transfer.id
        WHERE coalesce(entries.number, 0) <> 2 OR entries.total <> 0 OR entries.most <> transfer.amount
        """,
    ),
    Check(
        "ENTRY_MISPLACED",
        "An entry of the transfer is in an account that its kind does not touch, or in another user's.",
        f"""
        SELECT transfer.task_id, transfer.user_id, transfer.id
        FROM credit_entries AS entry JOIN credit_transfers AS transfer ON transfer.id = entry.transfer_id
        WHERE entry.account <> CASE transfer.kind {_ACCOUNT} END OR entry.user_id <> transfer.user_id
        """,  # noqa: S608 - from our own table of kinds
    ),
    # Balances and the ledger.
    Check(
        "BALANCE_WRONG",
        "The user's balance is not the sum of the user's entries.",
        """
        SELECT NULL, user_id, NULL FROM (
            SELECT user_id, CASE account WHEN 'available' THEN amount ELSE 0 END AS available,
                   CASE account WHEN 'held' THEN amount ELSE 0 END AS held
            FROM credit_entries WHERE user_id IS NOT NULL
            UNION ALL SELECT user_id, -available, -held FROM credit_balances
        ) AS either GROUP BY user_id HAVING sum(available) <> 0 OR sum(held) <> 0
        """,
    ),
    Check(
        "BALANCE_NEGATIVE",
        "The user has less than nothing.",
        """
        SELECT NULL, user_id, NULL FROM credit_entries WHERE user_id IS NOT NULL
        GROUP BY user_id, account HAVING sum(amount) < 0
        """,
    ),
    Check(
        "BALANCE_HELD_WRONG",
        "The user's held credits are not the sum of the user's open holds.",
        """
        SELECT NULL, user_id, NULL FROM (
            SELECT user_id, held FROM credit_balances
            UNION ALL SELECT user_id, -amount FROM credit_holds WHERE state = 'open'
        ) AS either GROUP BY user_id HAVING sum(held) <> 0
        """,
    ),
    Check(
        "BALANCE_HOLDS_WRONG",
        "The user's number of open holds is not that of the open holds.",
        """
        SELECT NULL, user_id, NULL FROM (
            SELECT user_id, open_holds FROM credit_balances
            UNION ALL SELECT user_id, -1 FROM credit_holds WHERE state = 'open'
        ) AS either GROUP BY user_id HAVING sum(open_holds) <> 0
        """,
    ),
    # Holds and the ledger.
    Check(
        "HOLD_TRANSFERS_WRONG",
        "The hold's transfers are not those of its state: one hold, one capture or release, at most one refund.",
        """
        SELECT hold.task_id, hold.user_id, NULL FROM credit_holds AS hold LEFT JOIN (
            SELECT task_id, min(user_id) AS first_user, max(user_id) AS last_user, min(amount) AS least,
                   max(amount) AS most, sum(CASE kind WHEN 'hold' THEN 1 ELSE 0 END) AS holds,
                   sum(CASE kind WHEN 'capture' THEN 1 ELSE 0 END) AS captures,
                   sum(CASE kind WHEN 'release' THEN 1 ELSE 0 END) AS releases,
                   sum(CASE kind WHEN 'refund' THEN 1 ELSE 0 END) AS refunds
            FROM credit_transfers WHERE task_id IS NOT NULL GROUP BY task_id
        ) AS made ON made.task_id = hold.task_id
        WHERE coalesce(made.holds, 0) <> CASE WHEN hold.amount > 0 THEN 1 ELSE 0 END
           OR coalesce(made.captures, 0) <> CASE WHEN hold.amount > 0 AND hold.state = 'captured' THEN 1 ELSE 0 END
           OR coalesce(made.releases, 0) <> CASE WHEN hold.amount > 0 AND hold.state = 'released' THEN 1 ELSE 0 END
           OR made.refunds > made.captures OR made.least <> hold.amount OR made.most <> hold.amount
           OR made.first_user <> hold.user_id OR made.last_user <> hold.user_id
        """,
    ),
    Check(
        "TRANSFER_WITHOUT_HOLD",
        "The transfer is for a task that has no hold.",
        """
        SELECT transfer.task_id, transfer.user_id, transfer.id FROM credit_transfers AS transfer
        WHERE transfer.task_id IS NOT NULL
          AND NOT EXISTS (SELECT 1 FROM credit_holds WHERE credit_holds.task_id = transfer.task_id)
        """,
    ),
    # What credits are held for, as capabilities register it: `holder`, and `noted` for the refunds they know of.
    Check(
        "HOLD_OPEN_AFTER_END",
        "The task has ended, but its credits are still held.",
        """
        SELECT hold.task_id, hold.user_id, NULL FROM credit_holds AS hold JOIN holder ON holder.id = hold.task_id
        WHERE hold.state = 'open' AND holder.status IN ('completed', 'failed', 'cancelled')
        """,
    ),
    Check(
        "HOLD_WITHOUT_TASK",
        "Credits are held for a task that does not exist.",
        """
        SELECT hold.task_id, hold.user_id, NULL FROM credit_holds AS hold
        WHERE hold.state = 'open' AND NOT EXISTS (SELECT 1 FROM holder WHERE holder.id = hold.task_id)
        """,
    ),
    Check(
        "TASK_WITHOUT_HOLD",
        "The task is under way, but no credits are held for it.",
        """
        SELECT holder.id, holder.user_id, NULL FROM holder
        WHERE holder.status IN ('pending', 'running') AND NOT EXISTS (
            SELECT 1 FROM credit_holds WHERE credit_holds.task_id = holder.id AND credit_holds.state = 'open'
        )
        """,
    ),
    Check(
        "TASK_NOT_CHARGED",
        "The task is completed, but its credits were not captured.",
        """
        SELECT holder.id, holder.user_id, NULL
        FROM holder LEFT JOIN credit_holds ON credit_holds.task_id = holder.id
        WHERE holder.status = 'completed' AND coalesce(credit_holds.state, 'released') = 'released'
        """,
    ),
    Check(
        "TASK_NOT_RELEASED",
        "The task failed or was cancelled, but its credits were not given back.",
        """
        SELECT holder.id, holder.user_id, NULL
        FROM holder LEFT JOIN credit_holds ON credit_holds.task_id = holder.id
        WHERE holder.status IN ('failed', 'cancelled') AND coalesce(credit_holds.state, 'captured') = 'captured'
          AND NOT EXISTS (SELECT 1 FROM credit_transfers AS transfer
                          WHERE transfer.task_id = holder.id AND transfer.kind = 'refund')
        """,
    ),
    Check(
        "REFUND_NOT_NOTED",
        "The task was refunded, but does not say so.",
        """
        SELECT transfer.task_id, transfer.user_id, transfer.id
        FROM credit_transfers AS transfer JOIN noted ON noted.id = transfer.task_id
        WHERE transfer.kind = 'refund' AND noted.amount <> transfer.amount
        """,
    ),
)

#: Only SQLite can store anything but an integer in an integer column.
SQLITE_ONLY = (
    Check(
        "AMOUNT_NOT_WHOLE",
        "An amount is not a whole number.",
        """
        SELECT task_id, user_id, id FROM credit_transfers WHERE typeof(amount) <> 'integer'
        UNION ALL SELECT NULL, user_id, transfer_id FROM credit_entries WHERE typeof(amount) <> 'integer'
        UNION ALL SELECT task_id, user_id, NULL FROM credit_holds WHERE typeof(amount) <> 'integer'
        UNION ALL SELECT NULL, user_id, NULL FROM credit_balances
            WHERE typeof(available) <> 'integer' OR typeof(held) <> 'integer'
        """,
    ),
)

#: The most findings listed per code.
FINDINGS_LIMIT = 100

GUARDED = ("credit_entries", "credit_transfers")
GUARDS_SQLITE = "SELECT tbl_name, name FROM sqlite_master WHERE type = 'trigger'"
GUARDS_POSTGRESQL = """
SELECT pg_class.relname::text, pg_trigger.tgname::text FROM pg_trigger JOIN pg_class ON pg_class.oid = tgrelid
WHERE pg_trigger.tgenabled IN ('O', 'A')
"""


@dataclass(frozen=True, slots=True)
class Finding:
    """A contradiction, and the task, user or transfer it concerns."""

    code: str
    sentence: str
    task_id: str | None = None
    user_id: str | None = None
    transfer_id: str | None = None


def audit(tx: Transaction, holders: Sequence[CreditHolder]) -> list[Finding]:
    """Return everything wrong with the ledger, as of one moment; an empty list is the expected result."""
    checks = (*CHECKS, *SQLITE_ONLY) if tx.dialect == SQLITE else CHECKS
    rows = " UNION ALL ".join(one.rows for one in holders)
    refunds = " UNION ALL ".join(one.refunds for one in holders if one.refunds)
    names = f"WITH holder (id, user_id, status) AS ({rows}), noted (id, amount) AS ({refunds})"
    return [*_missing_guards(tx), *(finding for check in checks for finding in _run(tx, names, check))]


def _run(tx: Transaction, names: str, check: Check) -> list[Finding]:
    rows = tx.execute(text(f"{names} {check.query} LIMIT {FINDINGS_LIMIT}"))
    return [Finding(check.code, check.sentence, *(None if one is None else str(one) for one in row)) for row in rows]


def _missing_guards(tx: Transaction) -> list[Finding]:
    """Return a finding for each missing trigger that refuses changes to the ledger."""
    rows = tx.execute(text(GUARDS_SQLITE if tx.dialect == SQLITE else GUARDS_POSTGRESQL))
    there = {tuple(row) for row in rows}
    return [
        Finding("LEDGER_UNGUARDED", f"Nothing refuses {verb} on {table}: its trigger is missing or switched off.")
        for table in GUARDED
        for verb in ("UPDATE", "DELETE")
        if (table, f"{table}_no_{verb.lower()}") not in there
    ]
