"""Progress of a run on standard error: a live table on a terminal, plain lines elsewhere."""

import sys
from datetime import UTC, datetime

from rich.console import Group
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from longtake.client import Client, Run
from longtake.client.shapes import Scene
from longtake.terminal.output import clean, duration, print_note
from longtake.terminal.progress import BAR_WIDTH, live_view

FRAMES_PER_SECOND = 4


def watch_run(client: Client, run_id: str) -> Run:
    """Show the run until none of its images is unfinished, then return it."""
    return _with_table(client, run_id) if sys.stderr.isatty() else _with_lines(client, run_id)


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


def _with_lines(client: Client, run_id: str) -> Run:
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
    with live_view(_table, run, frames_per_second=FRAMES_PER_SECOND) as show:
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
