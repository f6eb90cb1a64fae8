"""How images of scenes fare: the views that SQL has as well, rounded for people."""

from __future__ import annotations

from typing import Any

from sqlalchemy import BigInteger, Column, Float, MetaData, Table, Text, select

from longtake.db import Transaction
from longtake.db.dialects import Instant

STATUSES = ("queued", "processing", "completed", "failed", "cancelled")

_views = MetaData()
image_job_queue = Table(
    "image_job_queue",
    _views,
    Column("status", Text),
    Column("jobs", BigInteger),
    Column("oldest_queued_at", Instant),
)
image_job_figures = Table(
    "image_job_figures",
    _views,
    *(Column(name, BigInteger) for name in ("completed", "failed", "cancelled")),
    *(Column(name, Float) for name in ("failure_rate", "mean_seconds")),
    *(Column(name, Float) for name in ("mean_provider_ms", "mean_storage_ms", "mean_total_ms")),
)


def scene_figures(tx: Transaction) -> dict[str, Any]:
    """Return the queue by status, and of the last 24 hours how long images took, where, and how many failed."""
    counts = {row.status: row.jobs for row in tx.execute(select(image_job_queue))}
    row = tx.execute(select(image_job_figures)).one()
    digits = {"failure_rate": 4, "mean_seconds": 2, "mean_provider_ms": 0, "mean_storage_ms": 0, "mean_total_ms": 0}
    means = {
        name: None if getattr(row, name) is None else round(float(getattr(row, name)), most)
        for name, most in digits.items()
    }
    return {
        "queue": {name: counts.get(name, 0) for name in STATUSES},
        "last_24_hours": {"completed": row.completed, "failed": row.failed, "cancelled": row.cancelled, **means},
    }
