"""What trouble with a provider does to its lanes and alerts, what users are told, and how both end."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Protocol

import structlog

from longtake.adapters.providers.errors import ProviderUnauthorized
from longtake.db import Transaction
from longtake.engine.lane_store import all_lanes, lane_view, lock_lanes, pause_unpaused, resume_lane, wake_lane
from longtake.engine.lanes import Lane
from longtake.services.alerts import Severity, raise_alert, resolve_alert


@dataclass(frozen=True, slots=True)
class Trouble:
    """What keeps a job waiting, and what to do with the lane."""

    code: str
    message: str
    #: Lanes to pause until an operator resumes them: "submit" or "all".
    pause: str | None = None
    #: Raise an alert, one for the provider instead of one for each task.
    alert: bool = False
    #: The number of the next try, and the seconds until then; None if nothing was tried.
    attempt: int | None = None
    seconds: float = 0.0


#: The sentences for users. URLs, keys and quotas are for operators, who see the alert and the task's row.
TROUBLE = {
    "PROVIDER_BUSY": "The provider takes no more requests for now.",
    "PROVIDER_FULL": "The provider works on as many tasks as it takes at once.",
    "PROVIDER_QUOTA_SPENT": "The provider takes nothing more today.",
    "SUBMIT_UNKNOWN": "The provider's answer was lost; the task costs nothing unless it is found again.",
    "TASK_NOT_FOUND": "The provider does not know the task; it is asked once more.",
}
OTHER_TROUBLE = "The provider cannot be used right now; the task goes on by itself."
OUR_TROUBLE = "Something went wrong on our side; the task goes on by itself."


def trouble_words(code: str) -> str:
    """Return the sentence for users; never the provider's own text, which may contain URLs."""
    return TROUBLE.get(code, OTHER_TROUBLE if code.startswith("PROVIDER_") else OUR_TROUBLE)


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


def end_trouble(tx: Transaction, provider: str, lane: str, codes: Iterable[str]) -> bool:
    """Wake the jobs that wait because of the lane, and resolve the alerts of the trouble that is over.

    Returns False, and changes nothing, while the lane is paused: the answer belongs to a call that was on its way when
    the trouble began, and the alert must stay open until an operator resumes the lane.
    """
    if lane_view(tx, lane).paused:
        return False
    woken = wake_lane(tx, lane)
    for code in codes:
        resolve_alert(tx, code, provider)
    log.info("trouble with a provider is over", action="wake", provider=provider, lane=lane, jobs=woken)
    return True


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
