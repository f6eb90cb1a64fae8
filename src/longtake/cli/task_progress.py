"""Waiting for tasks: bars that move on a terminal, plain lines elsewhere; always where errors are said."""

import sys
import threading
from collections.abc import Sequence
from datetime import UTC, datetime

from rich.console import Console, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from longtake.capabilities.generation.progress import Progress, progress
from longtake.cli.output import clean, duration, print_note
from longtake.cli.task_ids import short
from longtake.client import Client, Task

FRAMES_PER_SECOND = 8
BAR_WIDTH = 30
#: A plain line is worth printing again when so much more is done.
STEP_PERCENT = 10


def follow(client: Client, task_ids: Sequence[str]) -> list[Task]:
    """Show the tasks until all have ended, and return them as they ended, in the same order."""
    seen: dict[str, Task] = {}
    if sys.stderr.isatty():
        _with_bars(client, task_ids, seen)
    else:
        _with_lines(client, task_ids, seen)
    return [seen[task_id] for task_id in dict.fromkeys(task_ids)]


def progress_of(task: Task, now: datetime) -> Progress:
    """Return how far a task probably is at this moment, also between two answers of the server."""
    begun = now if task.get("queue") else datetime.fromisoformat(task["started_at"] or task["created_at"])
    usual = task.get("usual")
    return progress(
        (now - begun).total_seconds(),
        usual["median_seconds"] if usual else None,
        usual["p95_seconds"] if usual else None,
        task["progress"],
    )


def describe(task: Task, now: datetime) -> str:
    """Return in words what is going on with a task."""
    if task["ended_at"] is not None:
        return task["status"]
    if retry := task.get("retry"):
        wait = (datetime.fromisoformat(retry["at"]) - now).total_seconds()
        when = f"in {duration(wait)}" if wait >= 1 else "now"
        attempt = f"{retry['attempt']} of {retry['of']}" if retry["of"] else f"try {retry['attempt']}"
        return f"tried again {when} ({attempt}): {retry['message']}"
    if task["trouble"] is not None:
        return f"waits: {task['trouble']['message']}"
    if (queue := task.get("queue")) and queue["ahead"]:
        return f"waits, {'at least ' if queue['more'] else ''}{queue['ahead']:,} ahead of it"
    if task["status"] == "pending":
        return "about to begin"
    found = progress_of(task, now)
    if found.late:
        return "takes longer than usual"
    return f"about {duration(found.seconds_left)} left" if found.seconds_left else "under way"


def _with_lines(client: Client, task_ids: Sequence[str], seen: dict[str, Task]) -> None:
    said: dict[str, str] = {}
    for task in client.follow(*task_ids):
        seen[task["id"]] = task
        done = task["progress"] if task["ended_at"] is None else None
        step = "" if done is None else f" {int(done * 100) // STEP_PERCENT * STEP_PERCENT} %"
        # What goes well needs no more words than how far it is.
        told = task["ended_at"] is None and (task["status"] != "running" or task["trouble"] or task.get("retry"))
        waiting = f", {describe(task, datetime.now(UTC))}" if told else ""
        line = f"{short(task['id'])} {task['status']}{step}{waiting}"
        if said.get(task["id"]) != line:
            said[task["id"]] = line
            print_note(line)


def _with_bars(client: Client, task_ids: Sequence[str], seen: dict[str, Task]) -> None:
    lock = threading.Lock()

    def picture() -> RenderableType:
        with lock:
            return _bars(list(seen.values()), datetime.now(UTC))

    console = Console(stderr=True, highlight=False, markup=False, emoji=False)
    with Live(get_renderable=picture, console=console, refresh_per_second=FRAMES_PER_SECOND):
        for task in client.follow(*task_ids):
            with lock:
                seen[task["id"]] = task


def _bars(tasks: Sequence[Task], now: datetime) -> Table:
    table = Table.grid(padding=(0, 1))
    for task in tasks:
        ended = task["ended_at"] is not None
        fraction = progress_of(task, now).fraction
        done = 1.0 if task["status"] == "completed" else 0.0 if ended else fraction
        # Where nobody can say how far it is, the bar only shows that something goes on.
        bar = ProgressBar(1.0 if done is not None else None, done or 0.0, width=BAR_WIDTH, pulse=done is None)
        percent = "" if done is None else f"{done * 100:3.0f} %"
        table.add_row(short(task["id"]), bar, percent, Text(clean(describe(task, now)), overflow="ellipsis"))
    return table
