"""The hot statements: insert, claim, end, put back. Set-based, at the driver, one file for each database.

Everything else about jobs is rare and written once, in Core.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from longtake.db import Transaction
from longtake.engine.jobs import Job


class NewJob(NamedTuple):
    """A row to insert; ``args`` is JSON text."""

    id: str
    kind: str
    key: str | None
    lane: str
    priority: int
    delay: float
    max_attempts: int
    args: str
    subject: str | None
    request_id: str | None


class QueueName(NamedTuple):
    """One range of the claim index. Queues of one priority take turns; within one, the longest due goes first."""

    lane: str
    kind: str
    priority: int


class Head(NamedTuple):
    """The first waiting job of a queue: in how many seconds it is due, and whether anything holds it back."""

    queue: QueueName
    due_in: float
    limited: bool
    paused: bool


class Ending(NamedTuple):
    """A job that ends. ``outcome`` is what its last attempt is remembered as."""

    id: str
    token: str
    state: str
    outcome: str
    error: str | None


class PutBack(NamedTuple):
    """A job that goes back to wait. ``outcome`` None: not an attempt, so none is remembered."""

    id: str
    token: str
    worker: str | None
    delay: float
    ran_attempt: int
    attempt: int
    crashes: int
    snoozed: bool = False
    keep_memo: bool = True
    memo: str | None = None
    keep_error: bool = True
    error: str | None = None
    outcome: str | None = None


@dataclass(frozen=True, slots=True)
class Claim:
    """What was claimed. ``heads`` is filled when it was less than wanted: it says what waits, and until when."""

    jobs: list[Job] = field(default_factory=list)
    heads: list[Head] | None = None
    #: For limited lanes: when each job may start (seconds from the claim), and how late it may be at most.
    starts: list[float] = field(default_factory=list)
    lifetime: float | None = None
    #: From when these seconds count (monotonic): the database's ``now()`` was not later.
    counted_from: float = 0.0
    #: When it is to be claimed from the lane again: before the next permit, since asking takes time too.
    next_in: float = 0.0
    #: As many run as may: the next start is when one of them ends.
    lane_full: bool = False


class Queue(Protocol):
    """What both databases do, each in its own words. Every method is called inside a transaction."""

    def insert(self, tx: Transaction, rows: Sequence[NewJob]) -> set[str]:
        """Insert what has no live twin (same kind and key); return the ids that went in.

        It waits for no transaction that claims, ends or puts back the twin, only for one that inserts the same key.
        """

    def claim(
        self, tx: Transaction, queues: Sequence[QueueName], token: str, worker: str, limit: int, *, limited: bool
    ) -> list[Job]:
        """Lease due jobs from the queues in the order given, skipping paused ones; nothing to an unregistered worker.

        ``limited`` says which lanes may be claimed from: those with limits (the caller holds their lock) or without.
        """

    def heads(self, tx: Transaction) -> list[Head]:
        """Return the first waiting job of each queue there is, at the cost of one index probe a queue."""

    def end(self, tx: Transaction, endings: Sequence[Ending], returned: Sequence[PutBack] = ()) -> set[str]:
        """Move the jobs whose lease still holds to the history; return their ids.

        Rows are locked in order of id, with those that the same transaction is about to put back.
        """

    def put_back(self, tx: Transaction, returned: Sequence[PutBack]) -> set[str]:
        """Let the jobs whose lease still holds wait again; return their ids. Rows are locked in order of id."""


#: The columns of a claimed job, in the order of Job's fields.
CLAIMED = (
    "id", "kind", "key", "lane", "priority", "attempt", "max_attempts", "crashes", "snoozes", "alone", "lease_token",
    "args", "memo", "subject", "request_id", "cancel_requested_at", "created_at", "due_at",
)  # fmt: skip
