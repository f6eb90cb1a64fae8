"""Forgetting: ended jobs with their attempts, and events, once they are old enough.

Old rows are found along the primary keys, so that no index has to be kept for them while jobs end. Ids made by this
program begin with the time: what was created before the day in question stands before it. Ids that a database makes
by default (outside SQL, triggers) are random; those stand almost all after any time of this century, and are walked
there. Each page is a transaction of its own, so other writers never wait long, and a kill loses nothing.
"""

import time
import uuid
from datetime import datetime, timedelta
from typing import Any, NamedTuple

import orjson
from sqlalchemy import select

from longtake.db import Database, Transaction
from longtake.db.dialects import POSTGRESQL, SQLITE, instant_to_text
from longtake.engine.jobs import Job, Priority
from longtake.engine.kinds import JobKind
from longtake.engine.outcomes import Done, Outcome, Snooze
from longtake.engine.schedules import Schedule, database_now
from longtake.engine.tables import jobs_ended

KIND = "engine.prune"
PAGE = 1_000
#: Then the job waits its turn again, so that it never holds a worker's place for long.
RUN_SECONDS = 5.0
EVERY_SECONDS = 3_600.0

HISTORY, STRANGE_IDS, EVENTS = "history", "strange_ids", "events"
FIRST_ID = str(uuid.UUID(int=0))
LAST_ID = str(uuid.UUID(int=2**128 - 1))

# Pages of events in the primary key's order, which differs between the databases. Each begins after the one before:
# from the table's beginning PostgreSQL would walk over all that was just deleted, again and again. Rows are removed by
# their place in the table: no plan can go wrong with that, however old the statistics are.
EVENTS_PAGE = {
    SQLITE: """
SELECT transaction_id, sequence, rowid, at < ?, 1 FROM events WHERE sequence > ? ORDER BY sequence LIMIT ?
""",
    POSTGRESQL: """
SELECT transaction_id::text::bigint, sequence, ctid::text, at < %s,
    transaction_id < pg_snapshot_xmin(pg_current_snapshot())
FROM events
WHERE (transaction_id, sequence) > (%s::text::xid8, %s) ORDER BY events.transaction_id, events.sequence LIMIT %s
""",
}
# The last that was removed; on PostgreSQL a number that is none of this server's past is as good as none.
FORGET = {
    SQLITE: "UPDATE events_forgotten SET transaction_id = ?, sequence = ? WHERE (transaction_id, sequence) < (?, ?)",
    POSTGRESQL: """
UPDATE events_forgotten SET transaction_id = %s, sequence = %s
WHERE (transaction_id, sequence) < (%s, %s)
    OR transaction_id >= pg_snapshot_xmin(pg_current_snapshot())::text::bigint
""",
}
REMOVE_EVENTS = {SQLITE: ("events", "rowid", ""), POSTGRESQL: ("events", "ctid", "tid")}
REMOVE_JOBS = (("job_attempts", "job_id", "uuid"), ("jobs_ended", "id", "uuid"))


class Place(NamedTuple):
    """Where the walk is: a stage, and the last it has looked at there (an id, or an event's place)."""

    stage: str = HISTORY
    after: str = FIRST_ID
    removed: int = 0


def prune_kind(database: Database, *, history_days: float, events_days: float) -> JobKind:
    """Return the kind that removes what is older than so many days."""

    async def prune(job: Job) -> Outcome:
        place = Place(*job.memo) if job.memo else Place()
        stop_at = time.monotonic() + RUN_SECONDS
        while True:
            following = await database.run(prune_page, place, history_days, events_days)
            if following is None:
                return Done(data={"removed": place.removed})
            place = following
            if time.monotonic() >= stop_at:
                return Snooze(0, memo=list(place), progress=True)

    return JobKind(KIND, prune, priority=Priority.LOW, time_limit=120.0)


def prune_schedule() -> Schedule:
    """Return when it runs."""
    return Schedule(KIND, KIND, every=EVERY_SECONDS)


def prune_page(tx: Transaction, place: Place, history_days: float, events_days: float) -> Place | None:
    """Remove one page of what is old enough; return where to go on, or None when nothing is left."""
    now = database_now(tx)
    if place.stage == EVENTS:
        return _prune_events(tx, place, now - timedelta(days=events_days))
    cutoff = now - timedelta(days=history_days)
    end = _first_id_of(cutoff) if place.stage == HISTORY else LAST_ID
    ids, last = _page(tx, place.after, end, cutoff)
    for table, column, kind in REMOVE_JOBS if ids else ():
        _remove(tx, table, column, kind, ids)
    if last is not None:
        return Place(place.stage, last, place.removed + len(ids))
    if place.stage == HISTORY:
        # A day of margin: clocks of other machines may be ahead, and none of their ids is strange.
        return Place(STRANGE_IDS, _first_id_of(now + timedelta(days=1)), place.removed + len(ids))
    return Place(EVENTS, "0:0", place.removed + len(ids))


def _page(tx: Transaction, after: str, end: str, cutoff: datetime) -> tuple[list[str], str | None]:
    """Return the ids on the page that are old enough, and the page's last id if more may follow."""
    columns = (jobs_ended.c.id, jobs_ended.c.ended_at)
    # The end is not asked for: between two bounds PostgreSQL expects so little that it would rather sort than walk.
    query = select(*columns).where(jobs_ended.c.id > after).order_by(jobs_ended.c.id).limit(PAGE)
    rows = tx.execute(query).all()
    here = [row for row in rows if row.id < end]
    old = [row.id for row in here if row.ended_at < cutoff]
    return old, here[-1].id if len(here) == PAGE else None


def _prune_events(tx: Transaction, place: Place, cutoff: datetime) -> Place | None:
    """Remove a page's old events, and say how far. They stand in order of time, so a page without any is the end."""
    transaction_id, sequence = (int(part) for part in place.after.split(":"))
    if tx.dialect == SQLITE:
        rows = tx.sql(EVENTS_PAGE[SQLITE], (instant_to_text(cutoff), sequence, PAGE))
    else:
        rows = tx.sql(EVENTS_PAGE[POSTGRESQL], (cutoff, transaction_id, sequence, PAGE))
    old = [row[2] for row in rows if row[3]]
    if not old:
        return None
    _remove(tx, *REMOVE_EVENTS[tx.dialect], old)
    removed = [row[:2] for row in rows if row[3] and row[4]]
    if removed:
        tx.sql(FORGET[tx.dialect], (*removed[-1], *removed[-1]))
    return Place(EVENTS, f"{rows[-1][0]}:{rows[-1][1]}", place.removed + len(old))


def _remove(tx: Transaction, table: str, column: str, kind: str, values: list[Any]) -> None:
    """Remove the rows with these values: one parameter, however many they are."""
    if tx.dialect == SQLITE:
        tx.sql(
            f"DELETE FROM {table} WHERE {column} IN (SELECT value FROM json_each(?))", (orjson.dumps(values).decode(),)
        )
    else:
        tx.sql(f"DELETE FROM {table} WHERE {column} = ANY(%s::{kind}[])", (values,))


def _first_id_of(moment: datetime) -> str:
    """Return the id before all that are made at or after the moment."""
    milliseconds = int(moment.timestamp() * 1000)
    return str(uuid.UUID(int=milliseconds << 80))
