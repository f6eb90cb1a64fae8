"""`longtake generate` where nothing runs: a server is started for the command, shared, stopped in order, replaced."""

from __future__ import annotations

import json
import os
import signal
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest

from tests.sandbox_process import SandboxProcess, running_sandbox
from tests.service.cli_users import Running, command, lives, place_with, started_server
from tests.service.processes import Place
from tests.wait import PATIENCE_SECONDS, wait_for

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

#: Commands start servers and stop them.
pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def sandbox() -> Iterator[SandboxProcess]:
    with running_sandbox(seconds={"image": 0.3}) as running:
        yield running


@pytest.fixture
def alone(sandbox: SandboxProcess, tmp_path: Path) -> Iterator[Place]:
    """A folder in which nothing runs, before and after."""
    place = place_with(sandbox, tmp_path)
    yield place
    assert started_server(place) is None


def result(place: Place, *arguments: str) -> Any:
    done = place.run(*arguments, "--json")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def newest_task(place: Place) -> Any:
    return result(place, "tasks", "list", "--limit", "1")["tasks"][0]


def at_once(place: Place, *commands: list[str]) -> list[Any]:
    """Run commands at the same time, so that one server is started for all of them."""
    with ThreadPoolExecutor() as threads:
        return list(threads.map(lambda arguments: place.run(*arguments), commands))


def test_a_server_is_started_for_the_command_and_stopped_after_it(alone: Place) -> None:
    with command(alone, "generate", "a red fox") as running:
        server = running.server()
        code, output, errors = running.end()
    assert code == 0, errors
    assert (alone.folder / output.strip()).exists()
    assert not lives(server)
    assert '"event":"worker stopped"' in (alone.data / "commands.log").read_text()
    # The owner of the machine pays the provider directly: what was missing was given, with its reason.
    history = result(alone, "credits", "history", "local")["transfers"]
    assert [(one["kind"], one["available"]) for one in history] == [("capture", 0), ("hold", -4), ("grant", 4)]
    assert "pays the provider directly" in history[-1]["reason"]
    assert alone.run("credits", "audit").returncode == 0


@contextmanager
def slow_command(place: Place, sandbox: SandboxProcess) -> Iterator[Running]:
    """Run a command that waits for its picture, from when the provider has its task."""
    before = len(sandbox.tasks())
    with command(place, "generate", "a slow fox") as running:
        wait_for(lambda: len(sandbox.tasks()) > before, "the submit")
        yield running


def told(running: Running, number: signal.Signals | None = None) -> tuple[int, str]:
    """Return the code with which it ended, by this signal, and the id of the task that it said how to follow."""
    if number is not None:
        running.process.send_signal(number)
    code, output, errors = running.end()
    assert (output, "Traceback" in errors) == ("", False)
    assert "Only the waiting has ended. `longtake tasks follow " in errors
    return code, errors.split("longtake tasks follow ")[1].split("`")[0]


@pytest.fixture
def held(sandbox: SandboxProcess) -> Iterator[SandboxProcess]:
    """The sandbox, whose pictures are not done before its faults are cleared."""
    sandbox.faults("running", route="query")
    yield sandbox
    sandbox.clear_faults()


def all_completed(place: Place, sandbox: SandboxProcess, before: int, *ids: str) -> None:
    """Follow what was begun to its end: each is there, and was paid for once, at the provider and here."""
    sandbox.clear_faults()
    followed = result(place, "tasks", "follow", *ids)
    tasks = followed["tasks"] if len(ids) > 1 else [followed]
    assert [(one["status"], len(one["files"])) for one in tasks] == [("completed", 1)] * len(ids)
    assert len(sandbox.tasks()) == before + len(ids)
    assert result(place, "credits", "balance", "local")["held"] == 0


def test_the_last_of_those_that_share_a_server_stops_it_and_their_tasks_go_on(
    alone: Place, held: SandboxProcess
) -> None:
    before = len(held.tasks())
    # Also when it is told to end, or its terminal closes.
    with slow_command(alone, held) as one, slow_command(alone, held) as two, slow_command(alone, held) as three:
        server = one.server()
        begun = alone.run("generate", "a patient fox", "--no-wait")
        ids = [begun.stdout.strip()]
        assert f"longtake tasks follow {ids[0]}" in begun.stderr
        for running, number in ((one, signal.SIGINT), (two, signal.SIGTERM), (three, signal.SIGHUP)):
            assert lives(server)
            code, task_id = told(running, number)
            ids.append(task_id)
            assert code == 130
        assert not lives(server)
    all_completed(alone, held, before, *ids)


def test_a_task_whose_server_was_killed_goes_on_with_the_next_command(alone: Place, held: SandboxProcess) -> None:
    before = len(held.tasks())
    with slow_command(alone, held) as running:
        # Killed before the provider's answer is on record, the task would wait for its review instead.
        wait_for(lambda: newest_task(alone)["status"] == "running", "the record of the submit")
        os.kill(running.server(), signal.SIGKILL)
        code, task_id = told(running)
        assert code == 3
    all_completed(alone, held, before, task_id)


def test_a_server_whose_command_was_killed_ends_by_itself_and_in_order(alone: Place, held: SandboxProcess) -> None:
    before = len(held.tasks())
    with slow_command(alone, held) as running:
        server = running.server()
        task_id = newest_task(alone)["id"]
        running.process.kill()
        running.process.wait(timeout=PATIENCE_SECONDS)
        wait_for(lambda: not lives(server), "the end of the server")
    all_completed(alone, held, before, task_id)


def test_commands_at_once_share_one_server(alone: Place) -> None:
    done = at_once(alone, *(["generate", f"fox number {number}"] for number in range(3)))
    assert [one.returncode for one in done] == [0, 0, 0], [one.stderr for one in done]
    assert len({one.stdout for one in done}) == 3
    assert (alone.data / "commands.log").read_text().count('"event":"server started"') == 1
    assert alone.run("credits", "audit").returncode == 0


def test_without_a_key_the_command_that_sets_one_is_named(alone: Place) -> None:
    del alone.settings["LONGTAKE_KIE_API_KEY"]
    for refused in at_once(alone, ["generate", "a fox"], ["generate", "a fox", "--model", "nano-banana"]):
        assert (refused.returncode, "[PROVIDER_NOT_CONFIGURED]" in refused.stderr) == (1, True)
        assert "longtake secrets set kie_api_key" in refused.stderr
        assert "LONGTAKE_KIE_API_KEY" in refused.stderr


def test_why_a_server_cannot_start_is_passed_on_as_it_is(alone: Place) -> None:
    alone.settings["LONGTAKE_APP"] = "no.such:module"
    failed = alone.run("tasks", "list")
    assert failed.returncode == 2
    assert failed.stderr.splitlines()[0].endswith("in the working directory. [APP_INVALID]")
    assert failed.stderr.splitlines()[1].startswith("  Example: --app shop.jobs:register")


def test_a_server_whose_folder_was_removed_ends_by_itself(alone: Place, held: SandboxProcess) -> None:
    with slow_command(alone, held) as running:
        server = running.server()
        (alone.data / "commands.lock").unlink()
        wait_for(lambda: not lives(server), "the end of the server")
