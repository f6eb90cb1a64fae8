"""Credits: an append-only double-entry ledger.

Every movement is one transfer with two entries that sum to zero. A user has two accounts, ``available`` and ``held``;
the program has ``issued``, where grants come from, and ``earned``, where captured credits go. The user's balance is
kept beside the entries and changes in the same transaction.
"""

from longtake.services.credits.audit import Finding, audit
from longtake.services.credits.holds import end_holds, hold
from longtake.services.credits.ledger import grant, refund, withdraw
from longtake.services.credits.transfers import Balance, Transfer, balance, history

__all__ = [
    "Balance",
    "Finding",
    "Transfer",
    "audit",
    "balance",
    "end_holds",
    "grant",
    "history",
    "hold",
    "refund",
    "withdraw",
]
