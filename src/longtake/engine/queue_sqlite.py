"""SQLite's hot statements. One writer, so what was read in a transaction still holds when it is written.

Batches go in as one JSON document and come out as one: every step of a statement gives up the interpreter's lock
and takes it again, so a hundred rows in one step cost a fraction of a hundred steps.
"""

from collections.abc import Iterable, Sequence
from typing import Any

import orjson

from longtake.db import Transaction
from longtake.db.dialects import text_to_instant
from longtake.engine.jobs import Job
from longtake.engine.queue import CLAIMED, Ending, Head, NewJob, PutBack, QueueName
from longtake.engine.tables import KEPT

INSERT = """
INSERT INTO jobs (id, kind, key, lane, priority, due_at, max_attempts, args, subject, request_id, created_at)
SELECT value ->> 0, value ->> 1, value ->> 2, value ->> 3, value ->> 4, later(value ->> 5), value ->> 6, value ->> 7,
       value ->> 8, value ->> 9, longtake_now()
FROM json_each(?) WHERE true
ON CONFLICT (kind, key) WHERE key IS NOT NULL DO NOTHING
"""

THERE = "SELECT id FROM jobs WHERE id IN (SELECT value FROM json_each(?))"

OPEN_QUEUES = """
SELECT lanes.name, job_kinds.name FROM lanes CROSS JOIN job_kinds
WHERE NOT lanes.paused AND lanes.limited = ? AND NOT job_kinds.paused
  AND coalesce(lanes.blocked_until <= longtake_now(), 1)
  -- A worker that was taken for dead must not claim: its jobs would belong to no worker.
  AND EXISTS (SELECT 1 FROM workers WHERE workers.id = ?)
"""

PICK = """
SELECT json_group_array(rowid) FROM (
    SELECT rowid FROM jobs INDEXED BY jobs_ready
    WHERE state = 'ready' AND lane = ? AND kind = ? AND priority = ? AND due_at <= longtake_now()
    ORDER BY due_at LIMIT ?
)
"""

LEASE = """
UPDATE jobs SET state = 'running', lease_token = ?, worker = ?, attempt = attempt + 1, started_at = longtake_now()
WHERE rowid IN (SELECT value FROM json_each(?))
"""

LEASED = f"""
SELECT json_group_array(json_array({", ".join(CLAIMED).replace("args, memo", "json(args), json(memo)")}))
FROM jobs WHERE rowid IN (SELECT value FROM json_each(?))
"""

# Three ranges instead of one comparison of row values, which SQLite would answer by reading the whole lane.
NEXT_HEAD = """
SELECT lane, kind, priority, seconds_until(due_at) FROM jobs WHERE rowid = coalesce(
    (SELECT rowid FROM jobs INDEXED BY jobs_ready WHERE state = 'ready' AND lane = ?1 AND kind = ?2 AND priority > ?3
     ORDER BY priority, due_at LIMIT 1),
    (SELECT rowid FROM jobs INDEXED BY jobs_ready WHERE state = 'ready' AND lane = ?1 AND kind > ?2
     ORDER BY kind, priority, due_at LIMIT 1),
    (SELECT rowid FROM jobs INDEXED BY jobs_ready WHERE state = 'ready' AND lane > ?1
     ORDER BY lane, kind, priority, due_at LIMIT 1)
)
"""

LANE_FLAGS = "SELECT name, limited, paused, coalesce(seconds_until(blocked_until), 0.0) FROM lanes"
KIND_FLAGS = "SELECT name, paused FROM job_kinds"

HELD = """
SELECT json_group_array(jobs.id) FROM json_each(?) AS lease CROSS JOIN jobs ON jobs.id = lease.value ->> 0
WHERE jobs.lease_token = lease.value ->> 1
"""

REMEMBER = f"""
INSERT INTO jobs_ended ({", ".join(KEPT)}, state, error, ended_at)
SELECT {", ".join(f"jobs.{name}" for name in KEPT)}, ending.value ->> 2, ending.value ->> 4, longtake_now()
FROM json_each(?) AS ending CROSS JOIN jobs ON jobs.id = ending.value ->> 0
"""

ATTEMPT = """
INSERT INTO job_attempts (job_id, attempt, outcome, worker, started_at, ended_at, error)
SELECT jobs.id, jobs.attempt, ran.value ->> 3, jobs.worker, jobs.started_at, longtake_now(), ran.value ->> 4
FROM json_each(?) AS ran CROSS JOIN jobs ON jobs.id = ran.value ->> 0
"""

TELL = """
INSERT INTO events (at, type, subject, data)
SELECT longtake_now(), 'job.' || (ran.value ->> 2), jobs.id,
       CASE WHEN ran.value ->> 4 IS NULL THEN json_object('kind', jobs.kind)
            ELSE json_object('kind', jobs.kind, 'code', json_extract(ran.value ->> 4, '$.code'),
                             'attempt', jobs.attempt, 'max_attempts', jobs.max_attempts) END
FROM json_each(?) AS ran CROSS JOIN jobs ON jobs.id = ran.value ->> 0
"""

REMOVE = "DELETE FROM jobs WHERE id IN (SELECT value ->> 0 FROM json_each(?))"

PUT_BACK = """
UPDATE jobs SET state = 'ready', lease_token = NULL, worker = NULL, alone = 0,
    -- A due time after its start was set while it ran: then it is due by that time.
    due_at = CASE WHEN jobs.due_at > jobs.started_at THEN min(jobs.due_at, later(back.value ->> 2))
                  ELSE later(back.value ->> 2) END,
    attempt = back.value ->> 3, crashes = back.value ->> 4, snoozes = jobs.snoozes + (back.value ->> 5),
    memo = CASE WHEN back.value ->> 6 THEN jobs.memo ELSE back.value ->> 7 END,
    error = CASE WHEN back.value ->> 8 THEN jobs.error ELSE back.value ->> 9 END
FROM json_each(?) AS back WHERE jobs.id = back.value ->> 0
"""


class SqliteQueue:
    """See :class:`longtake.engine.queue.Queue`."""

    def insert(self, tx: Transaction, rows: Sequence[NewJob]) -> set[str]:
        """Insert all at once; look for twins only where a key could have one."""
        tx.sql(INSERT, (_json([tuple(row) for row in rows]),))
        keyed = [row.id for row in rows if row.key is not None]
        inserted = {row.id for row in rows if row.key is None}
        if keyed:
            inserted.update(row[0] for row in tx.sql(THERE, (_json(keyed),)))
        return inserted

    def claim(
        self, tx: Transaction, queues: Sequence[QueueName], token: str, worker: str, limit: int, *, limited: bool
    ) -> list[Job]:
        """Go from queue to queue until enough is leased."""
        claimed: list[Job] = []
        is_open = set(tx.sql(OPEN_QUEUES, (limited, worker)))
        for queue in queues:
            if len(claimed) >= limit:
                break
            if (queue.lane, queue.kind) not in is_open:
                continue
            picked = tx.sql(PICK, (*queue, limit - len(claimed)))[0][0]
            if picked != "[]":
                tx.sql(LEASE, (token, worker, picked))
                claimed.extend(_job(row) for row in orjson.loads(tx.sql(LEASED, (picked,))[0][0]))
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

    def end(self, tx: Transaction, endings: Sequence[Ending], _returned: Sequence[PutBack] = ()) -> set[str]:
        held = self._held(tx, endings)
        ours = _json([(one.id, "", one.state, one.outcome, one.error) for one in endings if one.id in held])
        for statement in (REMEMBER, ATTEMPT, TELL, REMOVE):
            tx.sql(statement, (ours,))
        return held

    def put_back(self, tx: Transaction, returned: Sequence[PutBack]) -> set[str]:
        """Remember and tell while the row still says who ran it, then change it."""
        held = self._held(tx, returned)
        ours = [one for one in returned if one.id in held]
        failed = [(one.id, "", "retrying", one.outcome, one.error) for one in ours if one.outcome is not None]
        if failed:
            tx.sql(ATTEMPT, (_json(failed),))
            tx.sql(TELL, (_json(failed),))
        rows = [
            (one.id, "", one.delay, one.attempt, one.crashes, one.snoozed, one.keep_memo, one.memo, one.keep_error,
             one.error)
            for one in ours
        ]  # fmt: skip
        tx.sql(PUT_BACK, (_json(rows),))
        return held

    @staticmethod
    def _held(tx: Transaction, leases: Sequence[Ending] | Sequence[PutBack]) -> set[str]:
        document = _json([(one.id, one.token) for one in leases])
        return set(orjson.loads(tx.sql(HELD, (document,))[0][0]))


def _json(rows: Sequence[Any]) -> str:
    return orjson.dumps(rows).decode()


def _job(row: Iterable[Any]) -> Job:
    job = Job(*row)
    job.alone = bool(job.alone)
    job.created_at = text_to_instant(job.created_at)  # type: ignore[arg-type]
    job.due_at = text_to_instant(job.due_at)  # type: ignore[arg-type]
    if job.cancel_requested_at is not None:
        job.cancel_requested_at = text_to_instant(job.cancel_requested_at)  # type: ignore[arg-type]
    return job
