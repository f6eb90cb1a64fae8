"""Actions on finished media: health, stuck copies and failures."""

from typing import Any

from longtake.capabilities.media.health import fix_stuck, media_failures, media_health, stuck_media
from longtake.db import Transaction
from longtake.engine.engine import Engine
from longtake.server.operator.arguments import Limit


def assets_health(tx: Transaction, _engine: Engine) -> dict[str, Any]:
    """Show how many files of the last 24 hours have a copy and a thumbnail, next to the targets."""
    return media_health(tx)


def assets_stuck(tx: Transaction, _engine: Engine, *, limit: Limit = 50) -> dict[str, Any]:
    """List copies without progress for ten minutes, the longest first."""
    return {"stuck": stuck_media(tx, limit)}


def assets_failures(tx: Transaction, _engine: Engine, *, limit: Limit = 50) -> dict[str, Any]:
    """List copies and thumbnails that Longtake gave up, newest first."""
    return {"failures": media_failures(tx, limit)}


def assets_fix_stuck(tx: Transaction, _engine: Engine) -> dict[str, Any]:
    """Retry up to 50 stuck copies that have no job; each counts as a failed try."""
    return {"fixed": fix_stuck(tx)}
