"""`longtake sandbox` as it is typed."""

from __future__ import annotations

import socket
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
from typer.testing import CliRunner

from longtake.cli.main import app
from tests.sandbox.wire import Kie, Receiver
from tests.sandbox_process import running_sandbox
from tests.wait import PATIENCE_SECONDS, wait_for

if TYPE_CHECKING:
    from pathlib import Path

COMMAND = [sys.executable, "-m", "longtake", "sandbox"]


def test_a_killed_sandbox_knows_its_tasks_again_and_still_tells_their_end(tmp_path: Path, listener: Receiver) -> None:
    state = tmp_path / "tasks.jsonl"
    with running_sandbox(state=state, seconds={"image": 0.5}) as first:
        kie = Kie(first)
        done = kie.create("a fox [seconds=0]")
        running = kie.create("a hare", callback=listener.url)
        assert kie.record(done)["state"] == "success"
    with running_sandbox(state=state) as second:
        kie = Kie(second)
        assert {one["id"] for one in second.tasks()} == {done, running}
        assert kie.result_url(done)
        assert kie.end(running)["state"] == "success"
        wait_for(lambda: listener.got, "the callback")
        wait_for(lambda: b'"called_back":true' in state.read_bytes(), "the note that it was sent")
    with running_sandbox(state=state) as third:
        assert Kie(third).record(running)["state"] == "success"
        assert third.calls(route="callback") == []


def test_people_get_a_sentence_and_sigterm_ends_it_in_order() -> None:
    with subprocess.Popen([*COMMAND, "--port", "0"], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline().startswith("The sandbox listens on http://127.0.0.1:")
        process.terminate()
        assert process.wait(timeout=PATIENCE_SECONDS) == 0


@pytest.mark.parametrize(
    "arguments",
    [
        ["--seconds", "image"],
        ["--seconds", "image=-1"],
        ["--submit-limit", "many"],
        ["--query-limit", "0/1"],
        ["--faststart", "maybe"],
    ],
)
def test_wrong_options_are_refused(arguments: list[str]) -> None:
    ended = CliRunner().invoke(app, ["sandbox", "--port=0", *arguments])
    assert ended.exit_code == 2
    assert arguments[0] in ended.stderr


def test_a_port_that_is_taken_is_named() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        ended = subprocess.run(
            [*COMMAND, "--port", port], capture_output=True, text=True, timeout=PATIENCE_SECONDS, check=False
        )
    assert ended.returncode == 2
    assert "LISTEN_FAILED" in ended.stderr
    assert port in ended.stderr
