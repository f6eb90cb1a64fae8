"""Figures about finished media, from the views that SQL offers too, and their targets."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from sqlalchemy import Column, Integer, MetaData, Table, Text, func, literal, select, text, update
from sqlalchemy.types import Float

from longtake.capabilities.media.stuck_copies import MOST_STUCK, STUCK_ERROR, STUCK_SECONDS
from longtake.clock import iso_timestamp
from longtake.db.dialects import NOW, Identifier, Instant, later
from longtake.services.assets import assets

if TYPE_CHECKING:
    from sqlalchemy import Select

    from longtake.db import Transaction

_views = MetaData()
stuck_videos = Table(
    "stuck_videos",
    _views,
    Column("id", Identifier),
    Column("user_id", Text),
    Column("kind", Text),
    Column("title", Text),
    Column("migration_status", Text),
    Column("migration_attempts", Integer),
    Column("migration_error", Text),
    Column("stuck_since", Instant),
    Column("minutes_stuck", Float),
    Column("job_state", Text),
)
#: The view leaves out the address: it may contain a secret.
migration_failures = Table(
    "migration_failures",
    _views,
    Column("id", Identifier),
    Column("user_id", Text),
    Column("kind", Text),
    Column("title", Text),
    Column("what", Text),
    Column("status", Text),
    Column("attempts", Integer),
    Column("error", Text),
    Column("failed_at", Instant),
)


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
    row = tx.execute(text("SELECT * FROM migration_health")).one()._mapping  # noqa: SLF001 - SQLAlchemy's public name
    figures = {name: _rounded(value) for name, value in row.items()}
    counts = {name: value for name, value in figures.items() if not name.endswith("_rate")}
    return {**counts, "targets": [target.judge(figures) for target in TARGETS]}


def stuck_media(tx: Transaction, limit: int) -> list[dict[str, Any]]:
    """Return copies that have made no progress for ten minutes, the longest first."""
    return _rows(tx, select(stuck_videos).order_by(stuck_videos.c.stuck_since, stuck_videos.c.id).limit(limit))


def media_failures(tx: Transaction, limit: int) -> list[dict[str, Any]]:
    """Return copies and thumbnails that were given up, newest first."""
    view = migration_failures.c
    order = (view.failed_at.desc().nulls_last(), view.id, view.what)
    return _rows(tx, select(migration_failures).order_by(*order).limit(limit))


def fix_stuck(tx: Transaction) -> list[str]:
    """Count a failed try for copies that are stuck without a job, and restart them; return their ids.

    The row's trigger starts the job, so this works in a process that does not know the job kind.
    """
    view = stuck_videos.c
    lost = select(view.id).where(view.job_state.is_(None)).order_by(view.stuck_since, view.id).limit(MOST_STUCK)
    # Checked again with the lock: of two concurrent fixes the second finds nothing.
    since = func.coalesce(assets.c.mirror_tried_at, assets.c.completed_at, assets.c.created_at)
    still = (assets.c.id.in_(list(tx.execute(lost).scalars())), since < later(-STUCK_SECONDS))
    free = select(assets.c.id).where(*still).order_by(assets.c.id).with_for_update(skip_locked=True)
    before, after = map(literal, STUCK_ERROR.split("%s"))
    reason = before + assets.c.mirror_state + after
    changed = {"mirror_attempts": assets.c.mirror_attempts + 1, "mirror_tried_at": NOW, "mirror_error": reason}
    fix = update(assets).where(assets.c.id.in_(free)).values(**changed, force=True)
    fixed = tx.execute(fix.returning(assets.c.id)).scalars()
    tx.signal("jobs")
    return sorted(fixed)


def _rounded(value: Any) -> Any:
    return round(float(value), 4) if isinstance(value, float | Decimal) else value


def _rows(tx: Transaction, wanted: Select[Any]) -> list[dict[str, Any]]:
    # The names are a str subclass of SQLAlchemy, which JSON refuses.
    names = [str(column.name) for column in wanted.selected_columns]
    return [dict(zip(names, map(_plain, row), strict=True)) for row in tx.execute(wanted)]


def _plain(value: Any) -> Any:
    return iso_timestamp(value) if isinstance(value, datetime) else value
