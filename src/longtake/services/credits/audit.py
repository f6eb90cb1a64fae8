"""The audit: whether the ledger, the balances, the holds and the tasks agree. It reads, and changes nothing."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from sqlalchemy import text

from longtake.db.dialects import SQLITE
from longtake.services.credits.audit_checks import CHECKS, SQLITE_ONLY

if TYPE_CHECKING:
    from longtake.db import Transaction
    from longtake.services.credits.audit_checks import Check

#: As many findings of one code as are listed: whoever has more needs no longer list to begin with.
FINDINGS_LIMIT = 100

GUARDED = ("credit_entries", "credit_transfers")
GUARDS_SQLITE = "SELECT tbl_name, name FROM sqlite_master WHERE type = 'trigger'"
GUARDS_POSTGRESQL = """
SELECT pg_class.relname::text, pg_trigger.tgname::text FROM pg_trigger JOIN pg_class ON pg_class.oid = tgrelid
WHERE pg_trigger.tgenabled IN ('O', 'A')
"""


@dataclass(frozen=True, slots=True)
class Finding:
    """Something that does not agree, and whom or what it is about."""

    code: str
    sentence: str
    task_id: str | None = None
    user_id: str | None = None
    transfer_id: str | None = None


def audit(tx: Transaction) -> list[Finding]:
    """Return all that is wrong with the ledger, as of one moment; nothing is what should be found."""
    checks = (*CHECKS, *SQLITE_ONLY) if tx.dialect == SQLITE else CHECKS
    return [*_missing_guards(tx), *(finding for check in checks for finding in _ask(tx, check))]


def _ask(tx: Transaction, check: Check) -> list[Finding]:
    rows = tx.execute(text(f"{check.query} LIMIT {FINDINGS_LIMIT}"))
    return [Finding(check.code, check.sentence, *(None if one is None else str(one) for one in row)) for row in rows]


def _missing_guards(tx: Transaction) -> list[Finding]:
    """Find out whether the database itself still refuses to change what was written."""
    rows = tx.execute(text(GUARDS_SQLITE if tx.dialect == SQLITE else GUARDS_POSTGRESQL))
    there = {tuple(row) for row in rows}
    return [
        Finding("LEDGER_UNGUARDED", f"Nothing refuses {verb} on {table}: its trigger is missing or switched off.")
        for table in GUARDED
        for verb in ("UPDATE", "DELETE")
        if (table, f"{table}_no_{verb.lower()}") not in there
    ]
