"""Longtake runs media jobs that nothing interrupts.

The names below are imported when first used: `longtake --help` need not wait for database drivers.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from longtake.db import Database, Transaction, open_database
    from longtake.db.migrate import migrate_down, migrate_up
    from longtake.engine.engine import Engine
    from longtake.engine.jobs import Enqueued, Job, JobRequest, Priority
    from longtake.engine.kinds import Exponential, JobKind, Settlement, Steps
    from longtake.engine.lanes import Lane
    from longtake.engine.outcomes import Cancelled, Done, Fail, Outcome, Retry, Snooze
    from longtake.engine.schedules import Schedule
    from longtake.engine.worker import Worker

__all__ = [
    "Cancelled",
    "Database",
    "Done",
    "Engine",
    "Enqueued",
    "Exponential",
    "Fail",
    "Job",
    "JobKind",
    "JobRequest",
    "Lane",
    "Outcome",
    "Priority",
    "Retry",
    "Schedule",
    "Settlement",
    "Snooze",
    "Steps",
    "Transaction",
    "Worker",
    "migrate_down",
    "migrate_up",
    "open_database",
]

_HOMES = {
    "longtake.db": ("Database", "Transaction", "open_database"),
    "longtake.db.migrate": ("migrate_down", "migrate_up"),
    "longtake.engine.engine": ("Engine",),
    "longtake.engine.jobs": ("Enqueued", "Job", "JobRequest", "Priority"),
    "longtake.engine.kinds": ("Exponential", "JobKind", "Settlement", "Steps"),
    "longtake.engine.lanes": ("Lane",),
    "longtake.engine.outcomes": ("Cancelled", "Done", "Fail", "Outcome", "Retry", "Snooze"),
    "longtake.engine.schedules": ("Schedule",),
    "longtake.engine.worker": ("Worker",),
}
_HOME = {name: module for module, names in _HOMES.items() for name in names}


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'longtake' has no attribute {name!r}")
    value = globals()[name] = getattr(importlib.import_module(_HOME[name]), name)
    return value
