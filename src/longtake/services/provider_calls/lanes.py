"""Lanes of providers: paused after an error that only a person can fix, resumed when there is a new key."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Protocol

import structlog

from longtake.db import Transaction
from longtake.engine.lane_store import all_lanes, lock_lanes, pause_unpaused, resume_lane, wake_lane
from longtake.engine.lanes import Lane
from longtake.errors import ProviderUnauthorized
from longtake.services.alerts import Severity, raise_alert, resolve_alert
from longtake.services.provider_calls.trouble import Trouble

log = structlog.get_logger(__name__)

#: The reason of these pauses. Lanes that an operator paused have another reason and stay paused.
REASON = ProviderUnauthorized.code


class LaneOwner(Protocol):
    """A provider of media or of facts, whose calls run in lanes."""

    @property
    def name(self) -> str: ...

    @property
    def configured(self) -> bool: ...

    @property
    def submit_lane(self) -> Lane: ...

    @property
    def query_lane(self) -> Lane: ...


def act_on_trouble(tx: Transaction, provider: LaneOwner, trouble: Trouble, also: Iterable[str] = ()) -> None:
    """Pause the lanes that the trouble concerns, and ``also`` with them, and raise an alert."""
    lanes = {"all": [provider.submit_lane.name, provider.query_lane.name], "submit": [provider.submit_lane.name]}
    concerned = lanes.get(trouble.pause or "", [])
    names = sorted({*concerned, *also}) if concerned else []
    if names or trouble.alert:
        # A batch of outcomes may pause lanes of several providers, slow others, and raise alerts after that: so all
        # lanes are locked, in one order.
        lock_lanes(tx)
    paused = [lane for lane in names if pause_unpaused(tx, lane, trouble.code)]
    if trouble.alert:
        resume = f" Once that is fixed: `longtake lanes resume {' '.join(paused)}`." if paused else ""
        message = f"{trouble.message.rstrip('.')}.{resume}"  # a provider's own words may end without a full stop
        raise_alert(tx, Severity.CRITICAL, trouble.code, message, subject=provider.name)


def end_trouble(tx: Transaction, provider: str, lane: str, codes: Iterable[str]) -> None:
    """Wake the jobs that wait because of the lane, and resolve the alerts of the trouble that is over."""
    woken = wake_lane(tx, lane)
    for code in codes:
        resolve_alert(tx, code, provider)
    log.info("trouble with a provider is over", action="wake", provider=provider, lane=lane, jobs=woken)


def try_lanes_again(tx: Transaction, providers: Collection[str], lanes: Collection[str]) -> list[str]:
    """Resume the lanes that wait for a key, resolve their alerts, and return their names.

    A key that is still wrong pauses them again at the first request.
    """
    paused = [
        view.lane.name
        for view in all_lanes(tx)
        if view.paused and view.paused_reason == REASON and view.lane.name in lanes
    ]
    for name in paused:
        resume_lane(tx, name)
    for provider in sorted(providers) if paused else ():
        resolve_alert(tx, REASON, provider)
    if paused:
        log.info("lanes resumed with the current key", action="resume", lanes=paused)
    return paused
