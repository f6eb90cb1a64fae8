"""Fixtures: a place to run Longtake in, a server shared by a module's tests, and commands run in this process."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any

import orjson
import pytest

from longtake.cli.main import main
from tests.sandbox_process import SandboxProcess, running_sandbox
from tests.service.processes import Place, Server

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

#: How many titles the sandbox knows.
TITLES = 60


@dataclass
class Result:
    """How a command ended, and what it said."""

    code: int
    output: str
    errors: str

    @property
    def json(self) -> Any:
        return orjson.loads(self.output)


class Commands:
    """Runs commands in this process: the same code as `longtake …`, without a second of imports each time."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
        self._monkeypatch = monkeypatch
        self._capsys = capsys
        # Logging belongs to the tests' own process here.
        for module in ("logs", "server.process", "server.server", "cli.migrate"):
            import_module(f"longtake.{module}")
            monkeypatch.setattr(f"longtake.{module}.configure_logs", lambda *_arguments: None)

    def at(self, place: Place) -> Commands:
        """Run the commands that follow in this place."""
        self._monkeypatch.chdir(place.folder)
        for name, value in place.environment.items():
            if name.startswith("LONGTAKE_"):
                self._monkeypatch.setenv(name, value)
        return self

    def __call__(self, *arguments: str) -> Result:
        self._monkeypatch.setattr(sys, "argv", ["longtake", *arguments])
        self._capsys.readouterr()
        code: Any = 0
        try:
            main()
        except SystemExit as ended:
            code = ended.code or 0
        said = self._capsys.readouterr()
        return Result(code, said.out, said.err)


@pytest.fixture(scope="session")
def sandbox() -> Iterator[SandboxProcess]:
    """One outside world for all tests of a process; a test that changes it puts it back."""
    with running_sandbox(titles=TITLES, seconds={"image": 0.3}) as running:
        yield running


@pytest.fixture
def commands(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Commands:
    return Commands(monkeypatch, capsys)


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


@pytest.fixture(scope="module")
def shared_place(tmp_path_factory: pytest.TempPathFactory) -> Place:
    return Place(tmp_path_factory.mktemp("shared"))


@pytest.fixture(scope="module")
def shared_server(shared_place: Place) -> Iterator[Server]:
    """One server for all tests of a module; they must not stop it."""
    with shared_place.server_here() as server:
        yield server
