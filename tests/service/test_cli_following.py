"""What a waiting user reads: words for every state, a bar on a terminal."""

from __future__ import annotations

import os
import pty
import re
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, cast

import pytest

from longtake.cli.progress import describe, follow, progress_of
from longtake.cli.tasks import read_parameters
from tests.sandbox_process import running_sandbox
from tests.service.cli_users import place_with

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from longtake.client import Client, Model, Task

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)


def moment(seconds: float) -> str:
    return (NOW + timedelta(seconds=seconds)).isoformat()


def task(**changes: Any) -> Task:
    known: dict[str, Any] = {
        "id": "019a8f6e-5d0c-7c41-9f53-0f6d1f2b7a10", "status": "running", "progress": None, "trouble": None,
        "created_at": moment(-20), "started_at": moment(-7), "ended_at": None, "results": [],
        "usual": {"median_seconds": 14.0, "p95_seconds": 31.0, "runs": 9},
    }  # fmt: skip
    return cast("Task", {**known, **changes})


RETRY = {"attempt": 2, "of": 5, "at": moment(30), "code": "PROVIDER_BUSY", "message": "It is busy."}


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({}, "about 7 s left"),
        ({"started_at": moment(-40)}, "takes longer than usual"),
        ({"started_at": moment(-20)}, "under way"),
        ({"progress": 0.5}, "about 7 s left"),
        ({"usual": None}, "under way"),
        ({"status": "pending", "started_at": None}, "about to begin"),
        ({"status": "pending", "queue": {"position": 12, "ahead": 1100, "more": False}}, "waits, 1,100 ahead of it"),
        ({"status": "pending", "queue": {"position": 9, "ahead": 9, "more": True}}, "waits, at least 9 ahead of it"),
        ({"status": "pending", "queue": {"position": 1, "ahead": 0, "more": False}}, "about to begin"),
        ({"retry": RETRY}, "tried again in 30 s (2 of 5): It is busy."),
        ({"retry": {**RETRY, "at": moment(-1)}}, "tried again now (2 of 5): It is busy."),
        ({"trouble": {"code": "X", "message": "It is full."}}, "waits: It is full."),
        ({"status": "completed", "ended_at": moment(0)}, "completed"),
    ],
)
def test_every_state_has_its_words(changes: dict[str, Any], words: str) -> None:
    assert describe(task(**changes), NOW) == words


class Told:
    """Stands for a server that tells of these states, one after another."""

    def __init__(self, *states: Task) -> None:
        self._states = states

    def follow(self, *_task_ids: str) -> Iterator[Task]:
        return iter(self._states)


def test_lines_tell_of_the_trouble_of_a_task_that_runs(capsys: pytest.CaptureFixture[str]) -> None:
    at = (datetime.now(UTC) + timedelta(hours=2)).isoformat()
    trouble = {"code": "PROVIDER_BUSY", "message": "It is busy."}
    states = [
        task(),
        task(trouble=trouble, retry={**RETRY, "at": at}),
        task(trouble=trouble, retry={**RETRY, "attempt": 3, "at": at}),
        task(trouble=trouble),
        task(),
        task(status="completed", ended_at=moment(0)),
    ]
    follow(cast("Client", Told(*states)), [states[0]["id"]])
    lines = [line.split(" ", 1)[1] for line in capsys.readouterr().err.splitlines()]
    assert [re.sub(r"again .* \(", "again … (", line) for line in lines] == [
        "running",
        "running, tried again … (2 of 5): It is busy.",
        "running, tried again … (3 of 5): It is busy.",
        "running, waits: It is busy.",
        "running",
        "completed",
    ]


def test_the_bar_moves_on_between_two_answers() -> None:
    waiting = task()
    fractions = [progress_of(waiting, NOW + timedelta(seconds=step)).fraction or 0.0 for step in range(0, 60, 5)]
    assert fractions == sorted(fractions)
    assert fractions[0] == pytest.approx(0.45)
    assert max(fractions) < 1
    # A clock that is behind the server's begins at nothing.
    assert progress_of(waiting, NOW - timedelta(hours=1)).fraction == 0


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("size=2", "2"), ("steps=2", 2), ("steps=two", "two"), ("loop=yes", True), ("loop=off", False),
        ("loop=perhaps", "perhaps"), ("strength=0.5", 0.5), ("words=a=b", "a=b"), ("unknown=1", "1"),
    ],
)  # fmt: skip
def test_parameters_are_what_the_model_wants(text: str, value: Any) -> None:
    kinds = {
        "size": {"kind": "choice", "choices": ["1", "2"]},
        "steps": {"kind": "whole"},
        "loop": {"kind": "yes_no"},
        "strength": {"kind": "number"},
        "words": {"kind": "text"},
    }
    models = [cast("Model", {"name": "m", "parameters": kinds})]
    (found,) = read_parameters([text], models, "m").values()
    assert (found, type(found)) == (value, type(value))


def test_a_terminal_shows_a_bar_and_the_file_on_its_own(tmp_path: Path) -> None:
    with running_sandbox(seconds={"image": 1}) as sandbox:
        place = place_with(sandbox, tmp_path, TERM="xterm-256color", COLUMNS="100")
        controller, terminal = pty.openpty()
        process = subprocess.Popen(
            [sys.executable, "-m", "longtake", "generate", "a fox"],
            cwd=place.folder, env=place.environment, stdout=subprocess.PIPE, stderr=terminal, text=True,
        )  # fmt: skip
        os.close(terminal)
        shown = _everything(controller)
        output, _errors = process.communicate(timeout=60)
    assert process.returncode == 0, shown
    assert re.fullmatch(r"a-fox-[0-9a-f]{8}\.png\n", output)
    assert "━" in shown
    assert "100 %" in shown
    assert "completed" in shown
    # The cursor comes back.
    assert shown.rfind("\x1b[?25h") > shown.rfind("\x1b[?25l")


def _everything(controller: int) -> str:
    pieces = []
    while True:
        try:
            piece = os.read(controller, 65_536)
        except OSError:
            # Linux says so when the other side has closed.
            break
        if not piece:
            break
        pieces.append(piece)
    os.close(controller)
    return b"".join(pieces).decode(errors="replace")


def test_the_help_loads_nothing_that_only_commands_need() -> None:
    program = (
        "import sys, longtake.cli.main; "
        "print([m for m in ('aiohttp', 'fastapi', 'sqlalchemy', 'longtake.client') if m in sys.modules])"
    )
    shown = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert shown.stdout.strip() == "[]"
