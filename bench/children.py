"""Child processes, so that contenders share nothing: no interpreter, no caches, no event loop.

Every child leads a process group of its own; only what was started here is ever ended, by its id.
"""

import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
GRACE_SECONDS = 10.0


class ChildFailed(Exception):
    """A child ended when it should not have, or took too long; the message is the last thing it said."""


class Child:
    """A running child. Whoever starts one stops it; `running` and `program` do both."""

    def __init__(self, target: str, command: Sequence[str], environment: Mapping[str, str]) -> None:
        self.target = target
        self._output = tempfile.TemporaryFile("w+")  # noqa: SIM115 - lives as long as the child
        self._errors = tempfile.TemporaryFile("w+")  # noqa: SIM115
        self.process = subprocess.Popen(
            command,
            cwd=ROOT,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=self._output,
            stderr=self._errors,
            start_new_session=True,
        )

    @property
    def pid(self) -> int:
        return self.process.pid

    def result(self, timeout: float) -> Any:
        """Wait for the end and return what the function returned."""
        try:
            self.process.wait(timeout)
        except subprocess.TimeoutExpired:
            self.kill()
            raise ChildFailed(f"{self.target} took more than {timeout:g} s") from None
        self.check()
        self._output.seek(0)
        return json.loads(self._output.read().splitlines()[-1])

    def check(self) -> None:
        """Raise when the child has failed; a child that still runs is fine."""
        if self.process.poll() not in {None, 0}:
            raise ChildFailed(self._last_words())

    def stop(self) -> None:
        """Ask it to end, as an operator would; insist after the grace."""
        if self.process.poll() is None:
            self.process.terminate()
            with suppress(subprocess.TimeoutExpired):
                self.process.wait(GRACE_SECONDS)
        self.kill()

    def kill(self) -> None:
        """End the child and whatever it started. Its group outlives it only while one of these still runs."""
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()

    def close(self) -> None:
        self._output.close()
        self._errors.close()

    def _last_words(self) -> str:
        self._errors.seek(0)
        lines = [line.strip() for line in self._errors.read().splitlines() if line.strip()]
        return lines[-1][:200] if lines else f"{self.target} ended with status {self.process.returncode}"


@contextmanager
def program(name: str, command: Sequence[str], environment: Mapping[str, str]) -> Iterator[Child]:
    child = Child(name, command, environment)
    try:
        yield child
    finally:
        child.stop()
        child.close()


@contextmanager
def running(target: str, **arguments: Any) -> Iterator[Child]:
    command = [sys.executable, "-m", "bench.child", target, json.dumps(arguments)]
    with program(target, command, {**os.environ, "PYTHONPATH": str(ROOT)}) as child:
        yield child


def call(target: str, timeout: float = 300.0, /, **arguments: Any) -> Any:
    """Run a function in a child of its own and return its result."""
    with running(target, **arguments) as child:
        return child.result(timeout)
