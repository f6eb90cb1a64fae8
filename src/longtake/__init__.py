"""Longtake runs media jobs that nothing interrupts."""

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
