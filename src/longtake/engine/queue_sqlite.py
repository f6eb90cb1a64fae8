"""SQLite's hot statements. One writer, so what was read in a transaction still holds when it is written."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import orjson

from longtake.db.dialects import text_to_instant
from longtake.engine.jobs import Job
from longtake.engine.queue import CLAIMED, KEPT, Ending, Head, NewJob, PutBack, QueueName

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from longtake.db import Transaction

INSERT = """
INSERT INTO jobs (id, kind, key, lane, priority, due_at, max_attempts, args, subject, request_id, created_at)
VALUES (?, ?, ?, ?, ?, later(?), ?, ?, ?, ?, now())
ON CONFLICT (kind, key) WHERE key IS NOT NULL DO NOTHING
"""

OPEN_QUEUES = """
SELECT lanes.name, job_kinds.name FROM lanes CROSS JOIN job_kinds
WHERE NOT lanes.paused AND lanes.limited = ? AND NOT job_kinds.paused
  AND coalesce(lanes.blocked_until <= now(), 1)
"""

CLAIM = f"""
UPDATE jobs SET state = 'running', lease_token = ?, worker = ?, attempt = attempt + 1, started_at = now()
WHERE rowid IN (
    SELECT rowid FROM jobs INDEXED BY jobs_ready
    WHERE state = 'ready' AND lane = ? AND kind = ? AND priority = ? AND due_at <= now()
    ORDER BY due_at LIMIT ?
)
RETURNING {CLAIMED}
"""

NEXT_HEAD = """
SELECT lane, kind, priority, seconds_until(due_at) FROM jobs INDEXED BY jobs_ready
WHERE state = 'ready' AND (lane, kind, priority) > (?, ?, ?)
ORDER BY lane, kind, priority, due_at LIMIT 1
"""

LANE_FLAGS = "SELECT name, limited, paused, coalesce(seconds_until(blocked_until), 0.0) FROM lanes"
KIND_FLAGS = "SELECT name, paused FROM job_kinds"

HELD = "SELECT id, lease_token FROM jobs WHERE id IN (SELECT value FROM json_each(?))"

REMEMBER = f"""
INSERT INTO jobs_ended ({KEPT}, state, error, ended_at) SELECT {KEPT}, ?, ?, now() FROM jobs WHERE id = ?
"""

ATTEMPT = """
INSERT INTO job_attempts (job_id, attempt, outcome, worker, started_at, ended_at, error)
SELECT id, attempt, ?, worker, started_at, now(), ? FROM jobs WHERE id = ?
"""

TELL_END = """
INSERT INTO events (at, type, subject, data)
SELECT now(), ?, id, json_object('kind', kind, 'code', json_extract(?, '$.code')) FROM jobs WHERE id = ?
"""

REMOVE = "DELETE FROM jobs WHERE id = ?"

TELL_RETRY = """
INSERT INTO events (at, type, subject, data)
SELECT now(), 'job.retrying', id, json_object('kind', kind, 'code', json_extract(?, '$.code'), 'attempt', attempt,
    'max_attempts', max_attempts)
FROM jobs WHERE id = ?
"""

PUT_BACK = """
UPDATE jobs SET state = 'ready', lease_token = NULL, worker = NULL, alone = 0, due_at = later(?), attempt = ?,
    crashes = ?, snoozes = snoozes + ?, memo = CASE WHEN ? THEN memo ELSE ? END, error = CASE WHEN ? THEN error ELSE ? END
WHERE id = ?
"""


class SqliteQueue:
    """See :class:`longtake.engine.queue.Queue`."""

    def insert(self, tx: Transaction, rows: Sequence[NewJob]) -> set[str]:
        """Insert row by row in one call; look for twins only where a key could have one."""
        tx.sql_many(INSERT, rows)
        keyed = [row.id for row in rows if row.key is not None]
        inserted = {row.id for row in rows if row.key is None}
        if keyed:
            inserted.update(row[0] for row in tx.sql(HELD, (_json(keyed),)))
        return inserted

    def claim(
        self, tx: Transaction, queues: Sequence[QueueName], token: str, worker: str, limit: int, *, limited: bool
    ) -> list[Job]:
        """Go from queue to queue until enough is leased."""
        claimed: list[Job] = []
        is_open = set(tx.sql(OPEN_QUEUES, (limited,)))
        for queue in queues:
            if len(claimed) >= limit:
                break
            if (queue.lane, queue.kind) in is_open:
                rows = tx.sql(CLAIM, (token, worker, *queue, limit - len(claimed)))
                claimed.extend(_job(row) for row in rows)
        return claimed

    def heads(self, tx: Transaction) -> list[Head]:
        """Skip from queue to queue along the index."""
        lanes = {row[0]: (bool(row[1]), bool(row[2]), row[3]) for row in tx.sql(LANE_FLAGS)}
        kinds = {name: bool(paused) for name, paused in tx.sql(KIND_FLAGS)}
        found: list[Head] = []
        last: tuple[Any, ...] = ("", "", -1)
        while rows := tx.sql(NEXT_HEAD, last):
            lane, kind, priority, due_in = rows[0]
            limited, paused, blocked = lanes.get(lane, (False, True, 0.0))
            paused = paused or kinds.get(kind, True)
            due_in = max(due_in, blocked) if blocked > 0 else due_in
            found.append(Head(QueueName(lane, kind, priority), due_in, limited, paused))
            last = (lane, kind, priority)
        return found

    def end(self, tx: Transaction, endings: Sequence[Ending]) -> set[str]:
        """Copy, remember, tell, and then delete."""
        held = self._held(tx, endings)
        ours = [one for one in endings if one.id in held]
        tx.sql_many(REMEMBER, [(one.state, one.error, one.id) for one in ours])
        tx.sql_many(ATTEMPT, [(one.outcome, one.error, one.id) for one in ours])
        tx.sql_many(TELL_END, [(f"job.{one.state}", one.error, one.id) for one in ours])
        tx.sql_many(REMOVE, [(one.id,) for one in ours])
        return held

    def put_back(self, tx: Transaction, returned: Sequence[PutBack]) -> set[str]:
        """Remember and tell while the row still says who ran it, then change it."""
        held = self._held(tx, returned)
        ours = [one for one in returned if one.id in held]
        failed = [one for one in ours if one.outcome is not None]
        tx.sql_many(ATTEMPT, [(one.outcome, one.error, one.id) for one in failed])
        tx.sql_many(TELL_RETRY, [(one.error, one.id) for one in failed])
        tx.sql_many(
            PUT_BACK,
            [
                (one.delay, one.attempt, one.crashes, one.snoozed, one.keep_memo, one.memo, one.keep_error, one.error,
                 one.id)
                for one in ours
            ],
        )  # fmt: skip
        return held

    @staticmethod
    def _held(tx: Transaction, leases: Sequence[Ending] | Sequence[PutBack]) -> set[str]:
        tokens = {one.id: one.token for one in leases}
        rows = tx.sql(HELD, (_json(list(tokens)),))
        return {job_id for job_id, token in rows if token == tokens[job_id]}


def _json(values: list[str]) -> str:
    return orjson.dumps(values).decode()


def _job(row: Iterable[Any]) -> Job:
    job = Job(*row)
    job.args = orjson.loads(job.args)
    job.memo = None if job.memo is None else orjson.loads(job.memo)
    job.alone = bool(job.alone)
    job.created_at = text_to_instant(job.created_at)  # type: ignore[arg-type]
    job.due_at = text_to_instant(job.due_at)  # type: ignore[arg-type]
    if job.cancel_requested_at is not None:
        job.cancel_requested_at = text_to_instant(job.cancel_requested_at)  # type: ignore[arg-type]
    return job
