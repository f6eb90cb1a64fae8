"""Progress of tasks and runs on standard error: live bars or a table on a terminal, plain lines elsewhere."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime

from rich.console import Group
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from longtake.capabilities.generation.progress import Progress, progress
from longtake.cli.server import ServerConnection, short
from longtake.client import Client, Run, ServerUnreachable, Task
from longtake.client.shapes import Scene
from longtake.terminal.output import clean, duration, print_json, print_line, print_note
from longtake.terminal.progress import BAR_WIDTH, live_view

FRAMES_PER_SECOND = 8
#: The command that waits for tasks or a run.
WAITING = {"task": "follow", "run": "watch"}
#: A plain line is printed again after so much more progress.
STEP_PERCENT = 10


def follow(client: Client, task_ids: Sequence[str]) -> list[Task]:
    """Show the tasks until all have ended; return the ended tasks in the same order."""
    seen: dict[str, Task] = {}
    if sys.stderr.isatty():
        _with_bars(client, task_ids, seen)
    else:
        _with_lines(client, task_ids, seen)
    return [seen[task_id] for task_id in dict.fromkeys(task_ids)]


@contextlib.contextmanager
def interruptible(server: ServerConnection, noun: str, ids: Sequence[str] = ()) -> Iterator[list[str]]:
    """Say after Ctrl-C, or when the server is gone, how to wait again; `noun` is task or run.

    Yields the list of ids, to which those of new tasks or runs are added.
    """
    known = [*ids]
    try:
        yield known
    except (KeyboardInterrupt, ServerUnreachable) as error:
        if known or getattr(error, "sent", True):
            _print_interrupted(server, noun, known)
        raise


def _print_interrupted(server: ServerConnection, noun: str, ids: Sequence[str]) -> None:
    again = f"`longtake {noun}s {WAITING[noun]} {' '.join(ids)}`"
    if not ids:
        print_note(f"If the server accepted the {noun}, `longtake {noun}s list` shows it.")
    elif server.embedded:
        print_note(f"Only the waiting has ended. {again} starts a server again and continues.")
    else:
        print_note(f"Only the waiting has ended. The server continues; {again} waits again.")


def print_started(server: ServerConnection, task: Task, *, as_json: bool) -> None:
    """Print a task that is not waited for, and how to wait for it."""
    print_json(task) if as_json else print_line(task["id"])
    if server.embedded:
        print_note(f"No server runs here between commands: `longtake tasks follow {task['id']}` goes on with it.")
    elif not as_json:
        print_note(f"`longtake tasks follow {task['id']}` waits for it.")


def progress_of(task: Task, now: datetime) -> Progress:
    """Return the estimated progress of a task at this moment, also between two answers of the server."""
    started = now if task.get("queue") else datetime.fromisoformat(task["started_at"] or task["created_at"])
    usual = task.get("usual")
    return progress(
        (now - started).total_seconds(),
        usual["median_seconds"] if usual else None,
        usual["p95_seconds"] if usual else None,
        task["progress"],
    )


def describe(task: Task, now: datetime) -> str:
    """Return the state of a task in words."""
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
    printed: dict[str, str] = {}
    for task in client.follow(*task_ids):
        seen[task["id"]] = task
        done = task["progress"] if task["ended_at"] is None else None
        step = "" if done is None else f" {int(done * 100) // STEP_PERCENT * STEP_PERCENT} %"
        # A task that runs normally needs no description beside its progress.
        explain = task["ended_at"] is None and (task["status"] != "running" or task["trouble"] or task.get("retry"))
        waiting = f", {describe(task, datetime.now(UTC))}" if explain else ""
        line = f"{short(task['id'])} {task['status']}{step}{waiting}"
        if printed.get(task["id"]) != line:
            printed[task["id"]] = line
            print_note(line)


def _with_bars(client: Client, task_ids: Sequence[str], seen: dict[str, Task]) -> None:
    nothing_yet: list[Task] = []
    with live_view(_bars, nothing_yet, frames_per_second=FRAMES_PER_SECOND) as show:
        for task in client.follow(*task_ids):
            seen[task["id"]] = task
            show(list(seen.values()))


def _bars(tasks: Sequence[Task]) -> Table:
    now = datetime.now(UTC)
    table = Table.grid(padding=(0, 1))
    for task in tasks:
        ended = task["ended_at"] is not None
        fraction = progress_of(task, now).fraction
        done = 1.0 if task["status"] == "completed" else 0.0 if ended else fraction
        # Without an estimate the bar only pulses.
        bar = ProgressBar(1.0 if done is not None else None, done or 0.0, width=BAR_WIDTH, pulse=done is None)
        percent = "" if done is None else f"{done * 100:3.0f} %"
        table.add_row(short(task["id"]), bar, percent, Text(clean(describe(task, now)), overflow="ellipsis"))
    return table


RUN_FRAMES_PER_SECOND = 4


def watch_run(client: Client, run_id: str) -> Run:
    """Show the run until none of its images is unfinished, then return it."""
    return _with_table(client, run_id) if sys.stderr.isatty() else _with_run_lines(client, run_id)


def describe_scene(scene: Scene, now: datetime) -> str:
    """Return the state of a scene in words."""
    state = scene["state"]
    if state == "processing":
        return f"being made, try {scene['attempt']} of {scene['max_attempts']}"
    reason = scene["reason"]
    if reason is None or state in {"completed", "waiting"}:
        return state
    words = f"{reason['message'] or ''} [{reason['code']}]".strip()
    if state != "queued":
        return f"{state}: {words}"
    if scene["retry_at"] is None:
        return f"queued: {words}"
    seconds = (datetime.fromisoformat(scene["retry_at"]) - now).total_seconds()
    when = f"in {duration(seconds)}" if seconds >= 1 else "soon"
    return f"tried again {when} ({scene['attempt'] + 1} of {scene['max_attempts']}): {words}"


def describe_run(run: Run, now: datetime) -> str:
    """Return the state of the whole run in words."""
    total = run["total"]
    done = f"{total['completed']} of {total['scenes']} images"
    if held := run["held_back"]:
        until = f" until {held['until']}" if held["until"] else ""
        return f"{done}; held back{until}: {held['message']} [{held['code']}]"
    if run["status"] == "generating" and run["estimated_end_at"]:
        seconds = (datetime.fromisoformat(run["estimated_end_at"]) - now).total_seconds()
        return f"{done}; about {duration(seconds)} left" if seconds >= 1 else f"{done}; nearly done"
    return f"{done}; {run['status']}"


def _with_run_lines(client: Client, run_id: str) -> Run:
    printed: dict[int, str] = {}
    run = client.runs.get(run_id)
    for run in client.follow_run(run_id):
        now = datetime.now(UTC)
        for scene in run["scenes"]:
            line = describe_scene(scene, now)
            # Leave out the seconds until the next try: they change all the time.
            known = f"{scene['state']} {scene['attempt']} {scene['reason']}"
            if printed.get(scene["number"]) != known:
                printed[scene["number"]] = known
                print_note(f"scene {scene['number']}: {line}")
    return run


def _with_table(client: Client, run_id: str) -> Run:
    run = client.runs.get(run_id)
    with live_view(_table, run, frames_per_second=RUN_FRAMES_PER_SECOND) as show:
        for run in client.follow_run(run_id):
            show(run)
    return run


def _table(run: Run) -> Group:
    now = datetime.now(UTC)
    head = Table.grid(padding=(0, 1))
    percent = run["total"]["percent"]
    bar = ProgressBar(100, percent, width=BAR_WIDTH)
    head.add_row(bar, f"{percent:3d} %", Text(clean(describe_run(run, now)), overflow="ellipsis"))
    scenes = Table.grid(padding=(0, 1))
    for scene in run["scenes"]:
        state = Text(clean(describe_scene(scene, now)), overflow="ellipsis", no_wrap=True)
        scenes.add_row(f"{scene['number']:3d}", state, Text(clean(scene["prompt"]), overflow="ellipsis", no_wrap=True))
    return Group(head, scenes)
