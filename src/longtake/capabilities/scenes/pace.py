"""How fast images are begun: a lane of their own for each account with a provider."""

from __future__ import annotations

from longtake.capabilities.scenes.models import lane_name
from longtake.engine.lanes import Lane

MINUTE = 60.0
#: Beyond so many a minute starts are counted and no longer spaced: an account's limit is one by the minute then, and
#: what keeps starts apart would cost a good part of it.
SPACED_MOST = 60
#: Between the start that a lane permits and the call to the provider a row is written. A job for which that takes
#: longer is given back, and the lane's limits are wider by as much: calls are never closer than they may be.
BEGIN_SECONDS = 0.15


def scene_lane(account: str, per_minute: int, at_once: int) -> Lane:
    """Return the lane of an account: no more than so many calls in any minute, and up to 60 a minute evenly apart."""
    if per_minute > SPACED_MOST:
        return Lane(lane_name(account), max_running=at_once, rate=(per_minute, MINUTE + BEGIN_SECONDS))
    return Lane(lane_name(account), max_running=at_once, spacing=MINUTE / per_minute + BEGIN_SECONDS)
