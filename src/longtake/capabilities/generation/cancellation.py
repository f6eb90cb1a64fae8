"""Cancelling a task: it is no longer followed, and its credits come back, whatever the provider still does."""

from __future__ import annotations

from longtake.capabilities.generation.endings import Unsuccessful, end_tasks
from longtake.capabilities.generation.kinds import OF_A_TASK
from longtake.capabilities.generation.queries import get_task
from longtake.capabilities.generation.views import Task
from longtake.db import Transaction
from longtake.engine.control import cancel_of_subject
from longtake.errors import StateConflict


def cancel_task(tx: Transaction, user_id: str, task_id: str) -> Task:
    """End the task as cancelled. Again changes nothing; one that ended otherwise stays as it is."""
    task = get_task(tx, user_id, task_id)
    if task.status == "cancelled":
        return task
    if task.unfinished:
        # The job first, then the task, as workers do it: nobody deadlocks.
        cancel_of_subject(tx, task_id, OF_A_TASK, "cancelled by its user")
        wanted = Unsuccessful(task_id, "cancelled", "CANCELLED", "Cancelled by its user.")
        ended = end_tasks(tx, unsuccessful=[wanted])
        if ended:
            return ended[0]
        # It ended while we waited for its row: that came first.
        task = get_task(tx, user_id, task_id)
    message = f"The task {task_id} is {task.status}: its end does not change any more."
    raise StateConflict(message, task_status=task.status)
