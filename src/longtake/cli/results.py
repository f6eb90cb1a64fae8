"""Results of tasks: downloaded files named after the prompt, and a line on how each task ended."""

import re
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import typer

from longtake.cli.server import short
from longtake.client import Asset, Client, Task
from longtake.client.download import is_same_file, suffix_of
from longtake.terminal.failures import REFUSED, print_error
from longtake.terminal.output import print_json, print_line, print_note

SLUG_LENGTH = 40
#: Words with which providers refuse a prompt.
BLOCKED = re.compile(r"(?i)safety|prohibited|blocklist|filtered|flagged|violat|content polic|sensitive|\bSPII\b")
#: How long to wait for the server's own copy before taking the provider's file.
COPY_SECONDS = 60.0
LOOK_SECONDS = 0.2


def check_output(output: Path | None) -> None:
    """Refuse an existing file before anything is made for it."""
    if output is not None and output.exists() and not output.is_dir():
        raise typer.BadParameter(f"{output} already exists, and nothing is replaced", param_hint="--output")


def finish(
    client: Client, tasks: Sequence[Task], output: Path | None, *, as_json: bool, open_files: bool = False
) -> None:
    """Download the results and print how the tasks ended; exit with 1 if one has no result."""
    copied = [_wait_for_copies(client, task) for task in tasks]
    done = [
        (task, [_save(client, task, asset, output, number) for number, asset in enumerate(task["results"], 1)])
        for task in copied
    ]
    if as_json:
        shown: list[dict[str, Any]] = [{**task, "files": [str(file) for file in files]} for task, files in done]
        print_json(shown[0] if len(shown) == 1 else {"tasks": shown})
    for task, files in done:
        _print_end(task, files, as_json=as_json)
        for file in files if open_files else []:
            typer.launch(str(file))
    if any(task["status"] != "completed" for task in tasks):
        raise typer.Exit(REFUSED)


def _print_end(task: Task, files: Sequence[Path], *, as_json: bool) -> None:
    if task["status"] == "completed":
        if not as_json:
            for file in files:
                print_line(str(file))
            print_note(f"{task['model']}: {task['credits']['price']:,} credits.")
        return
    error = task["error"] or {"code": task["status"].upper(), "message": None}
    message = error["message"] or f"The task was {task['status']}."
    print_error(message, code_in_words(error["code"]), f"Nothing was charged. {_what_next(task, message)}")


def code_in_words(code: str) -> str:
    """Return the code of a failure; a bare number is the provider's code."""
    return f"provider's code {code}" if code.isdigit() else code


def _what_next(task: Task, message: str) -> str:
    code = task["error"]["code"] if task["error"] else ""
    if BLOCKED.search(code) or BLOCKED.search(message):
        return "The same prompt would be refused again: change it and run `longtake generate` again."
    return f"`longtake tasks retry {task['id']}` tries it again."


def _wait_for_copies(client: Client, task: Task) -> Task:
    """Return the task once its results are copied; a server stopped earlier would copy them later."""
    give_up_at = time.monotonic() + COPY_SECONDS
    while any(asset["save_state"] == "pending" for asset in task["results"]) and time.monotonic() < give_up_at:
        time.sleep(LOOK_SECONDS)
        task = client.tasks.get(task["id"])
    return task


def _save(client: Client, task: Task, asset: Asset, output: Path | None, number: int) -> Path:
    target = path = _target(output, task, asset, number)
    copy = 1
    while target.exists():
        if is_same_file(asset, target):
            return target
        copy += 1
        target = path.with_name(f"{path.stem}-{copy}{path.suffix}")
    try:
        return client.download(asset, target)
    except OSError as error:
        again = f"`longtake tasks follow {task['id']} --output DIR` fetches it again"
        raise typer.BadParameter(f"{target} cannot be written: {error.strerror or error}; {again}") from None


def _target(output: Path | None, task: Task, asset: Asset, number: int) -> Path:
    # A name without a suffix is that of a folder to be made.
    if output is not None and output.suffix and not output.is_dir():
        return output if number == 1 else output.with_name(f"{output.stem}-{number}{output.suffix}")
    words = re.sub(r"\W+", "-", task["prompt"].lower())[:SLUG_LENGTH].strip("-_") or task["type"]
    place = "" if number == 1 else f"-{number}"
    return (output or Path()) / f"{words}-{short(task['id'])}{place}{suffix_of(asset)}"
