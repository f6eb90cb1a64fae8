"""How long commands take from the shell's point of view, beside `longtake --help`, which does nothing but print.

Nearly all of that time is imports, so the figures are ratios: a slow machine is slow for `--help` as well. All of them
take turns in every round. One database has a server, which commands ask over loopback; the other has none, so that
commands open the file themselves; a third is where servers start, on tables that are there already.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager

from bench.ground import Ground
from bench.rows import Row, compared
from bench.service import Service, service_on

HELP = "longtake --help"
#: What each command may take at most, as a multiple of `--help`. Two have 4.1 where it was 3 while `--help` imported
#: all commands: now it takes 0.7 of that time.
BY_SERVER = {"jobs list": "<= 2", "models": "<= 2", "tasks list": "<= 2"}
BY_FILE = {"jobs list": "<= 4.1", "token": "<= 3", "migrate up": "<= 4.1"}


def rows(ground: Ground) -> list[Row]:
    with ExitStack() as stack:
        served, alone, started = (stack.enter_context(_service(ground)) for _ in range(3))
        stack.enter_context(served.running("serve"))
        goals: dict[str, str | None] = {}
        contenders = {HELP: _command(alone, "--help")}
        for command, goal in BY_SERVER.items():
            name = f"longtake {command}, asking a server"
            goals[name], contenders[name] = goal, _command(served, *command.split())
        for command, goal in BY_FILE.items():
            name = f"longtake {command}, opening the file"
            goals[name], contenders[name] = goal, _command(alone, *command.split())
        goals["longtake serve, until ready"] = None
        contenders["longtake serve, until ready"] = _ready(started)
        for run in contenders.values():
            # The first run of each writes Python's bytecode, and does not count.
            run()
        figures = ground.rounds(contenders)
    return [compared(name, figures[name], "ms", HELP, figures[HELP], goal) for name, goal in goals.items()]


@contextmanager
def _service(ground: Ground) -> Iterator[Service]:
    with service_on(ground, "sqlite") as service:
        # As on a machine where Longtake is installed: modules are compiled once, not by every command.
        service.environment.pop("PYTHONDONTWRITEBYTECODE", None)
        yield service


def _command(service: Service, *arguments: str) -> Callable[[], float]:
    def run() -> float:
        begun = time.perf_counter()
        service.command(*arguments)
        return 1000 * (time.perf_counter() - begun)

    return run


def _ready(service: Service) -> Callable[[], float]:
    def run() -> float:
        begun = time.perf_counter()
        with service.running("serve"):
            return 1000 * (time.perf_counter() - begun)

    return run
