"""Everything that routes, sweeps, estimates and figures ask about tasks, each by the function that always asks it."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from bench.million_rows import AWAY, HEAVY

if TYPE_CHECKING:
    from longtake.capabilities.generation.tables import Task
    from longtake.db import Transaction
    from longtake.server.application import Application

EVERY_LANE = ("kie.submit", "kie.query", "gemini.submit", "gemini.query")


@dataclass(frozen=True)
class Question:
    """A transaction function and what it is asked; `user` where a user asks, `writes` where it may change rows."""

    ask: Callable[..., Any]
    arguments: tuple[Any, ...] = ()
    user: str | None = None
    writes: bool = False


@dataclass(frozen=True)
class Known:
    """What the questions are about."""

    unfinished: list["Task"]
    ended: list["Task"]
    #: One that belongs to a conversation.
    talk: "Task"


def find_known(tx: "Transaction") -> Known:
    from longtake.capabilities.generation.tables import TaskFilter, list_tasks, unfinished_tasks

    ended = list_tasks(tx, HEAVY, TaskFilter(("completed",)), None, 1000)
    talk = next(task for task in ended if task.conversation_id is not None)
    return Known(unfinished_tasks(tx, HEAVY), ended, talk)


def of_lists(known: Known) -> dict[str, Question]:
    """Return the lists by each filter, for the user who has the most tasks."""
    from longtake.capabilities.generation.routes import ENDED
    from longtake.capabilities.generation.tables import TaskFilter, list_tasks

    talk = known.talk.conversation_id
    filters = {
        "all": TaskFilter(),
        "by status": TaskFilter(("failed",)),
        "by three statuses": ENDED,
        "by type": TaskFilter(type="video"),
        "by model": TaskFilter(model="nano-banana-pro"),
        "by a rare model": TaskFilter(model="kling-2.6"),
        "by status and type": TaskFilter(("cancelled",), "video"),
        "by status and a rare model": TaskFilter(("failed",), None, "kling-2.6"),
        "by three statuses and a rare model": TaskFilter(ENDED.status, None, "kling-2.6"),
        "by type and model that exclude each other": TaskFilter((), "image", "veo-3.1-fast"),
        "by conversation": TaskFilter(conversation_id=talk),
        "by conversation and status": TaskFilter(("failed",), conversation_id=talk),
    }
    further_on = Question(list_tasks, (HEAVY, TaskFilter(), known.ended[-1].id, 51), HEAVY)
    lists = {f"list {name}": Question(list_tasks, (HEAVY, one, None, 51), HEAVY) for name, one in filters.items()}
    away = Question(list_tasks, (AWAY, TaskFilter(), None, 51), AWAY)
    return lists | {"list further on": further_on, "list all of one who was away for a month": away}


def of_routes(application: "Application", known: Known) -> dict[str, Question]:
    """Return what other routes ask, and what comes with a request that is written."""
    from longtake.capabilities.generation.lost_submits import find_callback_task
    from longtake.capabilities.generation.tables import get_task, unfinished_tasks
    from longtake.http.idempotency import FIND
    from longtake.server.capabilities import snapshot_parts
    from longtake.server.snapshot import read_parts
    from longtake.services.assets import assets_of_tasks
    from longtake.services.conversations.store import count_unread, list_conversations

    key = {"user_id": "user-1", "route": "images/generate", "key": known.unfinished[0].id}
    return {
        "one task": Question(get_task, (HEAVY, known.talk.id), HEAVY),
        "unfinished tasks": Question(unfinished_tasks, (HEAVY,), HEAVY),
        "results of 20 tasks": Question(assets_of_tasks, ([task.id for task in known.ended[:20]], HEAVY), HEAVY),
        "conversations": Question(list_conversations, (HEAVY,), HEAVY),
        "unread": Question(count_unread, (HEAVY,), HEAVY),
        "whole snapshot": Question(read_parts, (snapshot_parts(application.context), HEAVY), HEAVY),
        "idempotency key": Question(lambda tx: tx.run(FIND, **key)),
        "task of a callback": Question(find_callback_task, ("kie", known.talk.reference)),
    }


def of_the_program(application: "Application", known: Known) -> dict[str, Question]:
    """Return what is asked on nobody's behalf."""
    from longtake.capabilities.generation.deadlines import end_overdue
    from longtake.capabilities.generation.health import (
        _poll_delay,
        _unfinished,
        generation_figures,
        read_ended,
        read_unpolled,
    )
    from longtake.capabilities.generation.lost_submits import enqueue_searches
    from longtake.capabilities.generation.outlook import _read_durations, _read_jobs, read_queues
    from longtake.capabilities.generation.submissions import RunningLimit, is_full
    from longtake.capabilities.generation.watch import _ended
    from longtake.capabilities.generation.watch import _unfinished as watched
    from longtake.http.idempotency import forget_old_keys
    from longtake.services.models import OfferedModels

    engine, providers = application.engine, application.context.providers
    ids = [task.id for task in known.unfinished]
    return {
        "queue of a lane": Question(read_queues, (["kie.submit"],)),
        "retries: jobs of 50 tasks": Question(_read_jobs, (ids, frozenset(EVERY_LANE))),
        "jobs and queue of 50 tasks": Question(_read_jobs, (ids, frozenset())),
        "tasks watched by a new stream": Question(watched, ([HEAVY],)),
        "ends of 50 awaited tasks": Question(_ended, (ids,)),
        "number running at a provider": Question(is_full, (RunningLimit(("kie", "kie_veo"), 5),)),
        "durations of all models": Question(_read_durations, (sorted(application.context.get(OfferedModels).models),)),
        "figures, all": Question(generation_figures, (24.0,)),
        "figures: ended in a day": Question(read_ended, (24.0,)),
        "figures: polls of running tasks": Question(_poll_delay),
        "figures: number unfinished": Question(_unfinished),
        "check: running tasks not asked about": Question(read_unpolled, (providers,)),
        "sweep: past their deadline": Question(end_overdue, (), writes=True),
        "sweep: lost submits": Question(enqueue_searches, (engine, providers), writes=True),
        "sweep: old idempotency keys": Question(forget_old_keys, writes=True),
    }
