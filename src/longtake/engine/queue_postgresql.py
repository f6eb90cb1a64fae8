"""PostgreSQL's hot statements: arrays in, one statement each.

The claim's plan must not depend on statistics: each queue is one range of the partial index ``jobs_ready``, read in
order and locked as it is read, so that concurrent claims never look at the same rows twice. A locked row cannot move,
so it is then changed by its place (ctid).
"""

from collections.abc import Sequence

from longtake.db import Transaction
from longtake.engine.jobs import Job
from longtake.engine.queue import CLAIMED, Ending, Head, NewJob, PutBack, QueueName
from longtake.engine.tables import KEPT

INSERT = """
INSERT INTO jobs (id, kind, key, lane, priority, due_at, max_attempts, args, subject, request_id)
SELECT id, kind, key, lane, priority, longtake_now() + make_interval(secs => delay), max_attempts, args::jsonb, subject,
       request_id
FROM unnest(%s::uuid[], %s::text[], %s::text[], %s::text[], %s::smallint[], %s::float8[], %s::int[], %s::text[],
            %s::text[], %s::text[])
     AS new(id, kind, key, lane, priority, delay, max_attempts, args, subject, request_id)
-- A live job with the same key is enough, also while another transaction ends it or puts it back: waiting for that one,
-- which may wait for rows that we hold, could be a deadlock.
WHERE (SELECT jobs.id FROM jobs WHERE jobs.kind = new.kind AND jobs.key = new.key) IS NULL
ON CONFLICT (kind, key) WHERE key IS NOT NULL DO NOTHING
RETURNING id
"""

CLAIM = f"""
WITH picked AS (
    SELECT job.place
    FROM (
        SELECT queue.* FROM unnest(%s::text[], %s::text[], %s::smallint[]) WITH ORDINALITY
            AS queue(lane, kind, priority, place)
        JOIN lanes ON lanes.name = queue.lane AND NOT lanes.paused AND lanes.limited = %s
            AND coalesce(lanes.blocked_until <= longtake_now(), true)
        JOIN job_kinds ON job_kinds.name = queue.kind AND NOT job_kinds.paused
        -- A worker that was taken for dead must not claim: its jobs would belong to no worker.
        WHERE EXISTS (SELECT FROM workers WHERE workers.id = %s)
        ORDER BY place
    ) AS queue
    CROSS JOIN LATERAL (
        SELECT ctid AS place FROM jobs
        WHERE state = 'ready' AND lane = queue.lane AND kind = queue.kind AND priority = queue.priority
          AND due_at <= longtake_now()
        ORDER BY due_at LIMIT %s FOR UPDATE SKIP LOCKED
    ) AS job
    LIMIT %s
)
UPDATE jobs SET state = 'running', lease_token = %s, worker = %s, attempt = attempt + 1, started_at = longtake_now()
WHERE ctid = ANY(ARRAY(SELECT place FROM picked))
RETURNING {", ".join(CLAIMED)}
"""

HEADS = """
WITH RECURSIVE head AS (
    (SELECT lane, kind, priority, due_at FROM jobs WHERE state = 'ready'
     ORDER BY lane, kind, priority, due_at LIMIT 1)
    UNION ALL
    SELECT next.* FROM head CROSS JOIN LATERAL (
        SELECT lane, kind, priority, due_at FROM jobs
        WHERE state = 'ready' AND (lane, kind, priority) > (head.lane, head.kind, head.priority)
        ORDER BY lane, kind, priority, due_at LIMIT 1
    ) AS next
)
SELECT head.lane, head.kind, head.priority,
       extract(epoch FROM greatest(head.due_at, lanes.blocked_until) - longtake_now())::float8,
       coalesce(lanes.limited, false), coalesce(lanes.paused, true) OR coalesce(job_kinds.paused, true)
FROM head LEFT JOIN lanes ON lanes.name = head.lane LEFT JOIN job_kinds ON job_kinds.name = head.kind
"""

# An UPDATE or DELETE of many rows locks them in any order: here their rows are locked first, in order of id. Those
# without a state are only locked; the same transaction puts them back.
END = f"""
WITH ending AS MATERIALIZED (
    SELECT ending.* FROM unnest(%s::uuid[], %s::uuid[], %s::text[], %s::text[], %s::text[])
        AS ending(id, token, state, outcome, error)
    JOIN jobs ON jobs.id = ending.id AND jobs.lease_token = ending.token
    ORDER BY jobs.id FOR UPDATE OF jobs
), gone AS (
    DELETE FROM jobs USING ending
    WHERE jobs.id = ending.id AND jobs.lease_token = ending.token AND ending.state IS NOT NULL
    RETURNING jobs.*, ending.state AS end_state, ending.outcome AS outcome, ending.error::jsonb AS end_error
), remembered AS (
    INSERT INTO jobs_ended ({", ".join(KEPT)}, state, error) SELECT {", ".join(KEPT)}, end_state, end_error FROM gone
), attempted AS (
    INSERT INTO job_attempts (job_id, attempt, outcome, worker, started_at, error)
    SELECT id, attempt, outcome, worker, started_at, end_error FROM gone
), told AS (
    INSERT INTO events (type, subject, data)
    SELECT 'job.' || end_state, id::text,
           CASE WHEN end_error IS NULL THEN jsonb_build_object('kind', kind)
                ELSE jsonb_build_object('kind', kind, 'code', end_error ->> 'code', 'attempt', attempt,
                                        'max_attempts', max_attempts) END
    FROM gone
)
SELECT id FROM gone
"""

PUT_BACK = """
WITH given AS MATERIALIZED (
    SELECT given.*
    FROM unnest(%s::uuid[], %s::uuid[], %s::uuid[], %s::float8[], %s::int[], %s::int[], %s::int[], %s::bool[],
                %s::bool[], %s::text[], %s::bool[], %s::text[], %s::text[])
        AS given(id, token, ran_by, delay, ran_attempt, attempt, crashes, snoozed, keep_memo, memo, keep_error, error,
                 outcome)
    JOIN jobs ON jobs.id = given.id AND jobs.lease_token = given.token
    ORDER BY jobs.id FOR UPDATE OF jobs
), back AS (
    UPDATE jobs SET state = 'ready', lease_token = NULL, worker = NULL, alone = false,
        -- A due time after its start was set while it ran: then it is due by that time.
        due_at = least(longtake_now() + make_interval(secs => given.delay),
                       CASE WHEN jobs.due_at > jobs.started_at THEN jobs.due_at END),
        attempt = given.attempt, crashes = given.crashes,
        snoozes = jobs.snoozes + given.snoozed::int,
        memo = CASE WHEN given.keep_memo THEN jobs.memo ELSE given.memo::jsonb END,
        error = CASE WHEN given.keep_error THEN jobs.error ELSE given.error::jsonb END
    FROM given
    WHERE jobs.id = given.id AND jobs.lease_token = given.token
    RETURNING jobs.id, jobs.kind, jobs.max_attempts, jobs.started_at, given.ran_by, given.ran_attempt, given.outcome,
              given.error::jsonb AS error
), attempted AS (
    INSERT INTO job_attempts (job_id, attempt, outcome, worker, started_at, error)
    SELECT id, ran_attempt, outcome, ran_by, started_at, error FROM back WHERE outcome IS NOT NULL
), told AS (
    INSERT INTO events (type, subject, data)
    SELECT 'job.retrying', id::text, jsonb_build_object('kind', kind, 'code', error ->> 'code',
        'attempt', ran_attempt, 'max_attempts', max_attempts)
    FROM back WHERE outcome IS NOT NULL
)
SELECT id FROM back
"""


def arrays(rows: Sequence[Sequence[object]]) -> list[str]:
    """Turn rows into one array literal for each column; several times cheaper than the driver's own."""
    return ["{" + ",".join(map(_element, column)) + "}" for column in zip(*rows, strict=True)]


def _element(value: object) -> str:
    if value is None:
        return "NULL"
    if isinstance(value, str):
        return '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'
    return str(value)


class PostgresqlQueue:
    """See :class:`longtake.engine.queue.Queue`."""

    def insert(self, tx: Transaction, rows: Sequence[NewJob]) -> set[str]:
        return {row[0] for row in tx.sql(INSERT, arrays(rows))}

    def claim(
        self, tx: Transaction, queues: Sequence[QueueName], token: str, worker: str, limit: int, *, limited: bool
    ) -> list[Job]:
        rows = tx.sql(CLAIM, [*arrays(queues), limited, worker, limit, limit, token, worker])
        return [Job(*row) for row in rows]

    def heads(self, tx: Transaction) -> list[Head]:
        return [Head(QueueName(*row[:3]), *row[3:]) for row in tx.sql(HEADS)]

    def end(self, tx: Transaction, endings: Sequence[Ending], returned: Sequence[PutBack] = ()) -> set[str]:
        rows = [*endings, *((one.id, one.token, None, None, None) for one in returned)]
        return {row[0] for row in tx.sql(END, arrays(rows))}

    def put_back(self, tx: Transaction, returned: Sequence[PutBack]) -> set[str]:
        return {row[0] for row in tx.sql(PUT_BACK, arrays(returned))}
