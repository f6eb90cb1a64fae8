"""Figures about finished media with their targets, and the job `assets.sweep`, which restarts stuck copies."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import structlog
from sqlalchemy import Row, Text, cast, exists, func, literal, select, text, update

from longtake.capabilities.media.imports import UNDER_WAY
from longtake.capabilities.media.mirror_retry import IMPORT, import_wait, needs_alert
from longtake.capabilities.media.store import alert_not_saved, announce, note_failure
from longtake.clock import iso_timestamp
from longtake.db.dialects import NOW, Identifier, Instant, later
from longtake.engine.jobs import JobRequest, Priority
from longtake.engine.kinds import JobKind
from longtake.engine.outcomes import Done
from longtake.engine.schedules import Schedule
from longtake.engine.tables import jobs
from longtake.services.assets import MIRROR, THUMBNAIL, asset_from, assets

if TYPE_CHECKING:
    from sqlalchemy.sql.elements import ColumnElement
    from sqlalchemy.sql.selectable import TextualSelect

    from longtake.db import Database, Transaction
    from longtake.engine.engine import Engine
    from longtake.engine.jobs import Job
    from longtake.engine.outcomes import Outcome


#: Read from the views of the migrations, which know more columns. The address may contain a secret.
_STUCK = text(
    "SELECT id, user_id, kind, title, migration_status, migration_attempts, migration_error, stuck_since,"
    " minutes_stuck, job_state FROM stuck_videos ORDER BY stuck_since, id LIMIT :most"
).columns(id=Identifier, stuck_since=Instant)
_STUCK_WITHOUT_JOB = text(
    "SELECT id FROM stuck_videos WHERE job_state IS NULL ORDER BY stuck_since, id LIMIT :most"
).columns(id=Identifier)
_FAILURES = text(
    "SELECT id, user_id, kind, title, what, status, attempts, error, failed_at FROM migration_failures"
    " ORDER BY failed_at DESC NULLS LAST, id, what LIMIT :most"
).columns(id=Identifier, failed_at=Instant)


@dataclass(frozen=True, slots=True)
class HealthTarget:
    """A promised rate: at least the limit, or at most."""

    name: str
    rate: str
    limit: float
    at_most: bool = False

    def judge(self, figures: dict[str, Any]) -> dict[str, Any]:
        """Return the rate with its target. `met` is None while there is no rate."""
        found = figures[self.rate]
        met = None if found is None else found < self.limit if self.at_most else found > self.limit
        return {"name": self.name, "rate": found, "target": self.limit, "at_most": self.at_most, "met": met}


TARGETS = (
    HealthTarget("thumbnail within 10 s", "within_10_seconds_rate", 0.95),
    HealthTarget("thumbnail made", "thumbnail_rate", 0.95),
    HealthTarget("copied at the first try", "first_try_rate", 0.70),
    HealthTarget("copied in the end", "copied_rate", 0.90),
    HealthTarget("never copied", "copies_failed_rate", 0.10, at_most=True),
)


def media_health(tx: Transaction) -> dict[str, Any]:
    """Return the figures of the last 24 hours and the targets."""
    row = tx.execute(text("SELECT * FROM migration_health")).mappings().one()
    figures = {
        name: round(float(value), 4) if isinstance(value, float | Decimal) else value for name, value in row.items()
    }
    counts = {name: value for name, value in figures.items() if not name.endswith("_rate")}
    return {**counts, "targets": [target.judge(figures) for target in TARGETS]}


def stuck_media(tx: Transaction, limit: int) -> list[dict[str, Any]]:
    """Return copies that have made no progress for ten minutes, the longest first."""
    return _rows(tx, _STUCK, limit)


def media_failures(tx: Transaction, limit: int) -> list[dict[str, Any]]:
    """Return copies and thumbnails that were given up, newest first."""
    return _rows(tx, _FAILURES, limit)


def fix_stuck(tx: Transaction) -> list[str]:
    """Count a failed try for copies that are stuck without a job, and restart them; return their ids.

    The row's trigger starts the job, so this works in a process that does not know the job kind.
    """
    lost = list(tx.execute(_STUCK_WITHOUT_JOB, {"most": MOST_STUCK}).scalars())
    # Checked again with the lock: of two concurrent fixes the second finds nothing.
    still = (assets.c.id.in_(lost), later(-STUCK_SECONDS) > _SINCE)
    free = select(assets.c.id).where(*still).order_by(assets.c.id).with_for_update(skip_locked=True)
    before, after = map(literal, STUCK_ERROR.split("%s"))
    reason = before + assets.c.mirror_state + after
    changed = {"mirror_attempts": assets.c.mirror_attempts + 1, "mirror_tried_at": NOW, "mirror_error": reason}
    fix = update(assets).where(assets.c.id.in_(free)).values(**changed, force=True)
    fixed = tx.execute(fix.returning(assets.c.id)).scalars()
    tx.signal("jobs")
    return sorted(fixed)


def _rows(tx: Transaction, wanted: TextualSelect, most: int) -> list[dict[str, Any]]:
    return [
        {name: iso_timestamp(value) if isinstance(value, datetime) else value for name, value in row.items()}
        for row in tx.execute(wanted, {"most": most}).mappings()
    ]


log = structlog.get_logger(__name__)

SWEEP = "assets.sweep"
EVERY_SECONDS = 300.0
#: How long a copy may be under way without progress before it counts as stuck.
STUCK_SECONDS = 600.0
#: Why such a copy failed; the SQL function of the views' migration says the same.
STUCK_ERROR = "COPY_STUCK: The copy was stuck in the state %s."
MOST_STUCK = 50
PAGE = 500
_SINCE = func.coalesce(assets.c.mirror_tried_at, assets.c.completed_at, assets.c.created_at)
#: Word for word the condition of the index `assets_unfinished`: otherwise SQLite does not use it.
_UNFINISHED = text(
    "(mirror_state IN ('pending', 'downloading', 'uploading', 'failed')"
    " OR thumbnail_state IN ('pending', 'processing', 'failed'))"
)


class StuckCopies:
    """Runs the sweeps."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def kind(self) -> JobKind:
        return JobKind(SWEEP, self.run, priority=Priority.HIGH, time_limit=120.0, max_attempts=3)

    def schedule(self) -> Schedule:
        return Schedule(SWEEP, SWEEP, every=EVERY_SECONDS)

    async def run(self, job: Job) -> Outcome:
        """Fail stuck copies, then start copies and thumbnails that were never started."""
        if stuck := await self._database.run(fail_stuck, job.engine):
            log.warning("copies were stuck", action="sweep", assets=len(stuck))
        for kind in (MIRROR, THUMBNAIL):
            while await self._database.run(start_forgotten, job.engine, kind) == PAGE:
                pass
        return Done()


def fail_stuck(tx: Transaction, engine: Engine) -> list[str]:
    """Fail copies that are under way but have no job; return their ids, at most ``MOST_STUCK``.

    Each failure counts as a try. The next try, if any is left, is enqueued for its time.
    """
    tried = (assets.c.mirror_state.in_(UNDER_WAY), ~_never_started(MIRROR), later(-STUCK_SECONDS) > _SINCE)
    rows = _without_job(tx, MIRROR, tried, MOST_STUCK)
    for row in rows:
        _fail(tx, engine, row)
    return [row.id for row in rows]


def start_forgotten(tx: Transaction, engine: Engine, kind: str) -> int:
    """Start copies or thumbnails of rows written before this program first ran; return how many, at most ``PAGE``."""
    if kind not in engine.kinds:
        return 0
    rows = _without_job(tx, kind, (_never_started(kind),), PAGE)
    engine.enqueue_many(tx, [_request(kind, row) for row in rows])
    return len(rows)


def _fail(tx: Transaction, engine: Engine, row: Row[Any]) -> None:
    failures = row.mirror_attempts + 1
    error = STUCK_ERROR % row.mirror_state
    # A paid result is never given up here: only a copy that has asked the provider can tell that it is lost.
    is_import = row.role == IMPORT
    wait = import_wait(failures) if is_import else 0.0
    note_failure(tx, row.id, error, state="failed" if is_import else "pending", counted=True)
    if needs_alert(row.role, failures):
        alert_not_saved(tx, row.id, error)
    if wait is None:
        announce(tx, asset_from(row), "failed")
    else:
        engine.enqueue_many(tx, [_request(MIRROR, row, failures if is_import else 0, wait)])


def _request(kind: str, row: Row[Any], failures: int = 0, delay: float = 0.0) -> JobRequest:
    args = {"asset": row.id, "failures": failures} if failures else {"asset": row.id}
    return JobRequest(kind, args, key=row.id, subject=row.id, request_id=row.request_id, delay=delay)


def _never_started(kind: str) -> ColumnElement[bool]:
    if kind == MIRROR:
        return (assets.c.mirror_state == "pending") & assets.c.mirror_tried_at.is_(None)
    return (assets.c.thumbnail_state == "pending") & assets.c.thumbnail_tried_at.is_(None)


def _without_job(tx: Transaction, kind: str, which: tuple[ColumnElement[bool], ...], most: int) -> list[Row[Any]]:
    """Return completed assets that have no live job of the kind, locked."""
    job = exists().where(jobs.c.kind == kind, jobs.c.key == cast(assets.c.id, Text))
    wanted = select(assets).where(_UNFINISHED, assets.c.status == "completed", *which, ~job)
    rows = tx.execute(wanted.order_by(assets.c.id).limit(most).with_for_update(of=assets, skip_locked=True)).all()
    # Checked again now that the rows are locked: a job may have started just before.
    keys = [row.id for row in rows]
    live = set(tx.execute(select(jobs.c.key).where(jobs.c.kind == kind, jobs.c.key.in_(keys))).scalars())
    return [row for row in rows if row.id not in live]
