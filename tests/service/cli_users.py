"""Commands as a user types them: processes of their own, with the sandbox as the outside world."""

from __future__ import annotations

import json
import os
import pty
import signal
import subprocess
import sys
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.service.processes import Place
from tests.wait import PATIENCE_SECONDS, wait_for

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pytest

    from tests.sandbox_process import SandboxProcess
    from tests.service.conftest import Commands, Result


def place_with(sandbox: SandboxProcess, folder: Path, **settings: str) -> Place:
    """A folder in which `longtake` uses this sandbox, and finds no log-in of the person who runs the tests."""
    known = {
        "LONGTAKE_KIE_API_KEY": sandbox.key,
        "LONGTAKE_KIE_BASE_URL": sandbox.kie_url,
        "LONGTAKE_ALLOW_ADDRESSES": "loopback",
        "XDG_CONFIG_HOME": str(folder / "config"),
        "COLUMNS": "200",
    }
    return Place(folder, known | settings)


@contextmanager
def typed(monkeypatch: pytest.MonkeyPatch, text: bytes) -> Iterator[None]:
    """Let commands of this process find a terminal, at which this has been typed."""
    controller, terminal = pty.openpty()
    try:
        os.write(controller, text)
        with (
            open(terminal, encoding="utf-8", closefd=False) as keyboard,
            open(terminal, "w", encoding="utf-8", closefd=False) as screen,
            monkeypatch.context() as patched,
        ):
            patched.setattr(sys, "stdin", keyboard)
            patched.setattr(sys, "stdout", screen)
            yield
    finally:
        os.close(controller)
        os.close(terminal)


@dataclass
class User:
    """Somebody in a folder, whose commands run in this process; for those that are interrupted there is `command`."""

    place: Place
    commands: Commands
    monkeypatch: pytest.MonkeyPatch

    @property
    def folder(self) -> Path:
        return self.place.folder

    def __call__(self, *arguments: str) -> Result:
        self.monkeypatch.setenv("XDG_CONFIG_HOME", self.place.settings["XDG_CONFIG_HOME"])
        return self.commands.at(self.place)(*arguments)

    def tasks(self) -> list[dict[str, Any]]:
        listed = self("tasks", "list", "--json")
        assert listed.code == 0, listed.errors
        found: list[dict[str, Any]] = listed.json["tasks"]
        return found

    def pictures(self) -> list[Path]:
        return sorted(self.folder.glob("*.png"))


@dataclass
class Running:
    """A command that has not ended."""

    process: subprocess.Popen[str]
    place: Place

    def server(self) -> int:
        """Return the process id of the server that was started for it."""
        return int(wait_for(lambda: started_server(self.place), "the start of its server"))

    def line(self) -> str:
        """Return the next line where errors are said."""
        assert self.process.stderr is not None
        return self.process.stderr.readline()

    def interrupt(self) -> tuple[int, str, str]:
        """Press Ctrl-C."""
        self.process.send_signal(signal.SIGINT)
        return self.end()

    def end(self) -> tuple[int, str, str]:
        output, errors = self.process.communicate(timeout=PATIENCE_SECONDS)
        return self.process.returncode, output, errors


@contextmanager
def command(place: Place, *arguments: str) -> Iterator[Running]:
    """Run a command until the block ends; however it ends, nothing of it stays."""
    process = subprocess.Popen(
        [sys.executable, "-m", "longtake", *arguments],
        cwd=place.folder, env=place.environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    running = Running(process, place)
    try:
        yield running
    finally:
        # In order, so that a server which is just starting for it is stopped as well.
        process.terminate()
        try:
            process.wait(timeout=PATIENCE_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait(timeout=PATIENCE_SECONDS)
        for stream in (process.stdout, process.stderr):
            assert stream is not None
            stream.close()
        stop_server(place)


def started_server(place: Place) -> int | None:
    """Return the process id of the server that commands have started, if it lives."""
    try:
        pid = int(json.loads((place.data / "server.json").read_text())["pid"])
    except (OSError, ValueError):
        return None
    return pid if lives(pid) else None


def stop_server(place: Place) -> None:
    """End what a killed command left behind."""
    if pid := started_server(place):
        os.kill(pid, signal.SIGKILL)
        wait_for(lambda: not lives(pid), "the end of the server")


def lives(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    # One that ended and that nobody has asked after is not alive.
    state = Path(f"/proc/{pid}/stat")
    return not (state.exists() and ") Z " in state.read_text())
