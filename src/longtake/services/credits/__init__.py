"""Credits: an append-only double-entry ledger.

Every movement is one transfer with two entries that sum to zero. A user has two accounts, ``available`` and ``held``;
the program has ``issued``, where grants come from, and ``earned``, where captured credits go. The user's balance is
kept beside the entries and changes in the same transaction.
"""

from longtake.services.credits.audit import Finding, audit
from longtake.services.credits.holds import Ended, capture, end_holds, hold, hold_each, release
from longtake.services.credits.ledger import grant, refund, withdraw
from longtake.services.credits.transfers import Balance, HistoryPage, Transfer, balance, history

__all__ = [
    "Balance",
    "Ended",
    "Finding",
    "HistoryPage",
    "Transfer",
    "audit",
    "balance",
    "capture",
    "end_holds",
    "grant",
    "history",
    "hold",
    "hold_each",
    "refund",
    "release",
    "withdraw",
]
