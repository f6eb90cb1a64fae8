"""The job kind `assets.sweep`: finds copies that are under way but have lost their jobs.

Assets with a live job are left alone: the engine retries those. A dead worker is noticed far sooner, by its lease; this
sweep is for jobs that are gone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import structlog
from sqlalchemy import Row, Text, cast, exists, func, select, text

from longtake.capabilities.media.mirror_retry import IMPORT, import_wait, needs_alert
from longtake.capabilities.media.mirror_store import alert_not_saved, announce_given_up, note_failure
from longtake.db.dialects import later
from longtake.engine.jobs import JobRequest, Priority
from longtake.engine.kinds import JobKind
from longtake.engine.outcomes import Done
from longtake.engine.schedules import Schedule
from longtake.engine.tables import jobs
from longtake.services.assets import MIRROR, THUMBNAIL, asset_from, assets

if TYPE_CHECKING:
    from sqlalchemy.sql.elements import ColumnElement

    from longtake.db import Database, Transaction
    from longtake.engine.engine import Engine
    from longtake.engine.jobs import Job
    from longtake.engine.outcomes import Outcome

log = structlog.get_logger(__name__)

SWEEP = "assets.sweep"
EVERY_SECONDS = 300.0
#: How long a copy may be under way without progress before it counts as stuck.
STUCK_SECONDS = 600.0
#: Why such a copy failed; the SQL function of the views' migration says the same.
STUCK_ERROR = "COPY_STUCK: The copy was stuck in the state %s."
MOST_STUCK = 50
PAGE = 500
UNDER_WAY = ("pending", "downloading", "uploading")
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
        """Return the job kind."""
        return JobKind(SWEEP, self.run, priority=Priority.HIGH, time_limit=120.0, max_attempts=3)

    def schedule(self) -> Schedule:
        """Return when it runs."""
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
    since = func.coalesce(assets.c.mirror_tried_at, assets.c.completed_at, assets.c.created_at)
    tried = (assets.c.mirror_state.in_(UNDER_WAY), ~_never_started(MIRROR), since < later(-STUCK_SECONDS))
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
        announce_given_up(tx, asset_from(row), "failed")
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
