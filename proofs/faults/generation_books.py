"""Everything the database says after a kill test of generation, read from outside with plain SQL."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tests.outside import plain_sql

if TYPE_CHECKING:
    from collections.abc import Sequence


@dataclass(frozen=True)
class TaskRow:
    """A task as its row has it."""

    user: str
    status: str
    fail_code: str | None
    prompt: str
    provider: str
    remote: str | None
    price: int
    conversation: str | None
    needs_review: bool


@dataclass(frozen=True)
class AssetRow:
    """A result as its row has it."""

    task: str
    state: str
    key: str | None
    size: int | None
    checksum: str | None
    source: str | None


@dataclass(frozen=True)
class Books:
    """Rows by the task they are about."""

    tasks: dict[str, TaskRow]
    assets: list[AssetRow]
    #: Role and state of each message.
    messages: dict[str, list[Any]]
    unread: dict[str, int]
    #: Kind and amount of each transfer.
    transfers: dict[str, list[Any]]
    entries_sum: int
    #: What each user has, and what of it is held.
    balances: dict[str, tuple[int, int]]
    events: dict[str, list[Any]]
    #: Facts of submissions, oldest first.
    submissions: dict[str, list[Any]]
    #: Kind and error.
    failed_jobs: list[tuple[str, str]]
    attempt_errors: list[tuple[str, str]]

    @staticmethod
    def read(url: str) -> Books:
        """Read all of it; nobody writes any more."""

        def rows(statement: str, *parameters: str) -> list[tuple[Any, ...]]:
            return plain_sql(url, statement, parameters)

        tasks = rows(
            "SELECT id, user_id, status, fail_code, prompt, provider, provider_task_id, price, conversation_id,"
            " needs_review FROM tasks"
        )
        assets = rows("SELECT task_id, mirror_state, key, size, checksum, source_url FROM assets WHERE role = 'result'")
        balances = rows("SELECT user_id, available, held FROM credit_balances")
        errors = "SELECT jobs_ended.kind, CAST(job_attempts.error AS text) FROM job_attempts JOIN jobs_ended"
        return Books(
            tasks={str(row[0]): _task(*row[1:]) for row in tasks},
            assets=[AssetRow(str(row[0]), *row[1:]) for row in assets],
            messages=_by_first(rows("SELECT task_id, role, state FROM messages WHERE task_id IS NOT NULL")),
            unread={str(row[0]): row[1] for row in rows("SELECT id, unread FROM conversations")},
            transfers=_by_first(rows("SELECT task_id, kind, amount FROM credit_transfers WHERE task_id IS NOT NULL")),
            entries_sum=int(rows("SELECT sum(amount) FROM credit_entries")[0][0]),
            balances={row[0]: (row[1], row[2]) for row in balances},
            events=_by_first(rows("SELECT subject, type FROM events WHERE type LIKE ? ORDER BY sequence", "task.%")),
            submissions=_by_first(rows("SELECT task_id, fact FROM submissions ORDER BY number")),
            failed_jobs=[
                (row[0], row[1])
                for row in rows("SELECT kind, CAST(error AS text) FROM jobs_ended WHERE state = 'failed'")
            ],
            attempt_errors=[
                (row[0], row[1])
                for row in rows(f"{errors} ON jobs_ended.id = job_attempts.job_id WHERE job_attempts.error IS NOT NULL")
            ],
        )


def _by_first(rows: Sequence[tuple[Any, ...]]) -> dict[str, list[Any]]:
    """Group rows by their first column, an id; what is left of each is a tuple, or a single value."""
    found: dict[str, list[Any]] = defaultdict(list)
    for first, *rest in rows:
        found[str(first)].append(rest[0] if len(rest) == 1 else tuple(rest))
    return found


def _task(*columns: Any) -> TaskRow:
    *same, conversation, needs_review = columns
    values = (*same, None if conversation is None else str(conversation), bool(needs_review))
    return TaskRow(*values)
