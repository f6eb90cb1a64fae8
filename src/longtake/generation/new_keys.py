"""Lanes that were paused because a key was not accepted: with a new key, or a new start, they are tried again."""

from __future__ import annotations

from collections.abc import Mapping

import structlog

from longtake.alerts import resolve_alert
from longtake.db import Transaction
from longtake.engine.lane_store import all_lanes, resume_lane
from longtake.errors import ProviderUnauthorized
from longtake.providers.provider import Provider

log = structlog.get_logger(__name__)

#: The reason under which bookkeeping pauses them. What an operator paused has another one, and stays.
REASON = ProviderUnauthorized.code


def try_lanes_again(tx: Transaction, providers: Mapping[str, Provider]) -> list[str]:
    """Resume the lanes and resolve their alerts; a key that is still wrong pauses them at its first request."""
    ours = {lane.name for one in providers.values() for lane in (one.submit_lane, one.query_lane)}
    paused = [
        view.lane.name
        for view in all_lanes(tx)
        if view.paused and view.paused_reason == REASON and view.lane.name in ours
    ]
    for name in paused:
        resume_lane(tx, name)
    for provider in sorted(providers) if paused else ():
        resolve_alert(tx, REASON, provider)
    if paused:
        log.info("lanes are tried again with the key there is now", action="resume", lanes=paused)
    return paused
