"""Operators' actions on finished media: health, stuck copies and failures.

A command may load this module to look for another package's action. What brings the HTTP client is imported later.
"""

from typing import Any

from longtake.actions import Action, Limit, Operator
from longtake.db import Transaction
from longtake.engine.engine import Engine


def assets_health(tx: Transaction, _engine: Engine) -> dict[str, Any]:
    """Show how many files of the last 24 hours have a copy and a thumbnail, next to the targets."""
    from longtake.capabilities.media.health import media_health  # noqa: PLC0415 - as said above

    return media_health(tx)


def assets_stuck(tx: Transaction, _engine: Engine, *, limit: Limit = 50) -> dict[str, Any]:
    """List copies without progress for ten minutes, the longest first."""
    from longtake.capabilities.media.health import stuck_media  # noqa: PLC0415 - as said above

    return {"stuck": stuck_media(tx, limit)}


def assets_failures(tx: Transaction, _engine: Engine, *, limit: Limit = 50) -> dict[str, Any]:
    """List copies and thumbnails that Longtake gave up, newest first."""
    from longtake.capabilities.media.health import media_failures  # noqa: PLC0415 - as said above

    return {"failures": media_failures(tx, limit)}


def assets_fix_stuck(tx: Transaction, _engine: Engine) -> dict[str, Any]:
    """Retry up to 50 stuck copies that have no job; each counts as a failed try."""
    from longtake.capabilities.media.health import fix_stuck  # noqa: PLC0415 - as said above

    return {"fixed": fix_stuck(tx)}


OPERATOR = Operator(
    actions=[
        Action("assets.health", assets_health),
        Action("assets.stuck", assets_stuck),
        Action("assets.failures", assets_failures),
        Action("assets.fix_stuck", assets_fix_stuck, writes=True),
    ]
)
