"""What a command leaves behind: files with speaking names, and a word about how each task ended."""

import re
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import typer

from longtake.cli.failures import REFUSED, print_error
from longtake.cli.output import print_json, print_line, print_note
from longtake.cli.task_ids import short
from longtake.client import Asset, Client, Task
from longtake.client.download import is_same_file, suffix_of

SLUG_LENGTH = 40
#: How providers say that they do not want to make something.
BLOCKED = re.compile(r"(?i)safety|prohibited|blocklist|filtered|flagged|violat|content polic|sensitive|\bSPII\b")
#: How long a command waits for our own copy, before it takes the provider's file.
KEPT_SECONDS = 60.0
LOOK_SECONDS = 0.2


def check_output(output: Path | None) -> None:
    """Refuse a file that is there already, before anything is made for it."""
    if output is not None and output.exists() and not output.is_dir():
        raise typer.BadParameter(f"{output} is there already, and nothing is replaced", param_hint="--output")


def finish(
    client: Client, tasks: Sequence[Task], output: Path | None, *, as_json: bool, open_files: bool = False
) -> None:
    """Download what the tasks made and say how they ended; ends with 1 if one has no result."""
    kept = [_kept(client, task) for task in tasks]
    done = [(task, _download(client, task, output)) for task in kept]
    if as_json:
        shown: list[dict[str, Any]] = [{**task, "files": [str(file) for file in files]} for task, files in done]
        print_json(shown[0] if len(shown) == 1 else {"tasks": shown})
    for task, files in done:
        _tell(task, files, as_json=as_json)
        for file in files if open_files else []:
            typer.launch(str(file))
    if any(task["status"] != "completed" for task in tasks):
        raise typer.Exit(REFUSED)


def _tell(task: Task, files: Sequence[Path], *, as_json: bool) -> None:
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
    """Return the code of a failure; a mere number is one of the provider's."""
    return f"provider's code {code}" if code.isdigit() else code


def _what_next(task: Task, message: str) -> str:
    code = task["error"]["code"] if task["error"] else ""
    if BLOCKED.search(code) or BLOCKED.search(message):
        return "The same prompt would be refused again: change it, and `longtake generate` anew."
    return f"`longtake tasks retry {task['id']}` tries it again."


def _download(client: Client, task: Task, output: Path | None) -> list[Path]:
    return [
        _save(client, task, asset, _wanted(output, task, asset, number))
        for number, asset in enumerate(task["results"], 1)
    ]


def _kept(client: Client, task: Task) -> Task:
    """Return the task when its results are copied; a server that is stopped before would copy them later."""
    give_up_at = time.monotonic() + KEPT_SECONDS
    while any(asset["save_state"] == "pending" for asset in task["results"]) and time.monotonic() < give_up_at:
        time.sleep(LOOK_SECONDS)
        task = client.tasks.get(task["id"])
    return task


def _save(client: Client, task: Task, asset: Asset, wanted: Path) -> Path:
    number = 1
    target = wanted
    while target.exists():
        if is_same_file(asset, target):
            return target
        number += 1
        target = wanted.with_name(f"{wanted.stem}-{number}{wanted.suffix}")
    try:
        return client.download(asset, target)
    except OSError as error:
        again = f"`longtake tasks follow {task['id']} --output DIR` fetches it again"
        raise typer.BadParameter(f"{target} cannot be written: {error.strerror or error}; {again}") from None


def _wanted(output: Path | None, task: Task, asset: Asset, number: int) -> Path:
    if output is not None and not output.is_dir() and not _names_a_folder(output):
        return output if number == 1 else output.with_name(f"{output.stem}-{number}{output.suffix}")
    words = re.sub(r"\W+", "-", task["prompt"].lower())[:SLUG_LENGTH].strip("-_") or task["type"]
    place = "" if number == 1 else f"-{number}"
    return (output or Path()) / f"{words}-{short(task['id'])}{place}{suffix_of(asset)}"


def _names_a_folder(output: Path) -> bool:
    return not output.suffix
