"""Tasks in the snapshot: the unfinished ones, and the last that ended."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from longtake.capabilities.generation.queries import PENDING_LIMIT, TaskFilter, list_tasks, unfinished_tasks
from longtake.capabilities.generation.schemas import COMPLETED_EXAMPLE, TASK_EXAMPLE, TaskAnswer
from longtake.capabilities.generation.service import TaskViews
from longtake.capabilities.generation.tables import Task
from longtake.capability import Context, SnapshotPart
from longtake.db import Transaction
from longtake.services.assets import Asset, assets_of_tasks

RECENT = 20
ENDED = TaskFilter(status=("completed", "failed", "cancelled"))


class TaskSnapshot(BaseModel):
    """The members about tasks."""

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"tasks": [TASK_EXAMPLE], "tasks_more": False, "recent": [COMPLETED_EXAMPLE]}]}
    )

    tasks: list[TaskAnswer] = Field(description="All unfinished ones, oldest first.")
    tasks_more: bool = Field(description="There are more unfinished tasks than are shown.")
    recent: list[TaskAnswer] = Field(description="The last ones that ended, newest first.")


@dataclass(frozen=True, slots=True)
class SeenTasks:
    """A user's tasks as they were in one moment."""

    unfinished: Sequence[Task]
    recent: Sequence[Task]
    results: Mapping[str, Sequence[Asset]]


def part(context: Context) -> SnapshotPart[SeenTasks]:
    """Return the part. Looking counts as watching."""
    views = context.get(TaskViews)

    async def show(seen: SeenTasks) -> dict[str, Any]:
        return {
            "tasks": await views.show(seen.unfinished[:PENDING_LIMIT], {}),
            "tasks_more": len(seen.unfinished) > PENDING_LIMIT,
            "recent": await views.show(seen.recent, seen.results),
        }

    return SnapshotPart(schema=TaskSnapshot, read=read_tasks, show=show)


def read_tasks(tx: Transaction, user_id: str) -> SeenTasks:
    """Return the user's unfinished and recent tasks."""
    recent = list_tasks(tx, user_id, ENDED, None, RECENT)
    completed = [task.id for task in recent if task.status == "completed"]
    results = assets_of_tasks(tx, completed, user_id) if completed else {}
    return SeenTasks(unfinished_tasks(tx, user_id), recent, results)
