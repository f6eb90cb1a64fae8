"""Actions on finished media: how they fare, what hangs, what failed."""

from typing import Any

from longtake.capabilities.media.health import fix_stuck, media_failures, media_health, stuck_media
from longtake.db import Transaction
from longtake.engine.engine import Engine
from longtake.server.operator.arguments import Limit


def assets_health(tx: Transaction, _engine: Engine) -> dict[str, Any]:
    """Show how many files of the last 24 hours were copied and have a thumbnail, with the targets."""
    return media_health(tx)


def assets_stuck(tx: Transaction, _engine: Engine, *, limit: Limit = 50) -> dict[str, Any]:
    """List copies that have not moved for ten minutes, the longest first."""
    return {"stuck": stuck_media(tx, limit)}


def assets_failures(tx: Transaction, _engine: Engine, *, limit: Limit = 50) -> dict[str, Any]:
    """List copies and thumbnails that were given up, the newest first."""
    return {"failures": media_failures(tx, limit)}


def assets_fix_stuck(tx: Transaction, _engine: Engine) -> dict[str, Any]:
    """Try at once, at most 50 at a time, what is stuck and has no job; it counts as a failed try."""
    return {"fixed": fix_stuck(tx)}
