"""What a benchmark stands on: its options, servers started when first needed, and rounds that take turns."""

import statistics
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeVar

from bench import children, outside, servers
from bench.drain import Contender
from bench.rows import Measured, Row, readable

QUICK_SHARE = 10

T = TypeVar("T")


@dataclass(frozen=True)
class Options:
    """As given on the command line."""

    runs: int = 5
    only: tuple[str, ...] = ()
    redis: bool = False
    quick: bool = False
    #: How long a window of measuring lasts, where a part has one; None for as long as it usually does.
    seconds: float | None = None
    plans: bool = False

    def number(self, full: int) -> int:
        """Return how many jobs to use: all, or a tenth when only the machinery is to be tried."""
        return max(full // QUICK_SHARE, 1) if self.quick else full


class Ground:
    """Keeps servers until the end of the benchmark, so that all parts and contenders meet on the same ones."""

    def __init__(self, options: Options, stack: ExitStack) -> None:
        self.options = options
        self._stack = stack
        self._kept: dict[str, Any] = {}

    def keep(self, name: str, make: Callable[[], AbstractContextManager[T]]) -> T:
        """Make what several parts share when the first of them asks, and keep it until the end."""
        if name not in self._kept:
            self._kept[name] = self._stack.enter_context(make())
        kept: T = self._kept[name]
        return kept

    @cached_property
    def postgresql(self) -> servers.PostgreSQL:
        return self._stack.enter_context(servers.postgresql())

    @cached_property
    def redis(self) -> str:
        return self._stack.enter_context(servers.redis())

    @cached_property
    def sandbox(self) -> outside.Sandbox:
        return self._stack.enter_context(outside.running_sandbox())

    def lasting_folder(self) -> str:
        """Return a new folder that stays until the end of the benchmark.

        For parts that write many files: ext4 goes past every inode that was freed in the last minutes, one by one, for
        each file it makes. Those of the round before, deleted, would take a large part of the next round's time.
        """
        return self._stack.enter_context(temporary_folder())

    @contextmanager
    def database(self, dialect: str) -> Iterator[str]:
        """Yield the address of a fresh database: `sqlite` or `postgresql`."""
        if dialect == "postgresql":
            with self.postgresql.database() as url:
                yield url
        else:
            with temporary_folder() as folder:
                yield f"sqlite:///{folder}/bench.db"

    def drain_on(self, dialect: str, contender: Contender) -> Callable[[], float]:
        def run() -> float:
            with self.database(dialect) as url:
                return contender.drain(url, self.options.number(contender.jobs))

        return run

    def label(self, contender: Contender) -> str:
        return f"{contender.name}, {self.options.number(contender.jobs):,} jobs"

    def rounds(self, contenders: Mapping[str, Callable[[], float]]) -> dict[str, Measured]:
        """Let all contenders take turns, so that a slow minute of the machine hits each of them; return the medians.

        One that fails is not tried again; the others go on without it.
        """
        figures: dict[str, list[float]] = {name: [] for name in contenders}
        reasons: dict[str, str] = {}
        for turn in range(self.options.runs):
            for name, run in contenders.items():
                if name in reasons:
                    continue
                try:
                    figures[name].append(run())
                except Exception as failure:  # noqa: BLE001 - whatever it was, it is the reason for this figure alone
                    reasons[name] = reason(failure)
                    say(f"  {turn + 1}/{self.options.runs} {name}: {reasons[name]}")
                else:
                    say(f"  {turn + 1}/{self.options.runs} {name}: {readable(figures[name][-1])}")
        return {
            name: Measured(reason=reasons[name]) if name in reasons else Measured(statistics.median(figures[name]))
            for name in contenders
        }


def temporary_folder() -> AbstractContextManager[str]:
    return tempfile.TemporaryDirectory(prefix="longtake-bench-", ignore_cleanup_errors=True)


def measure(options: Options, parts: Mapping[str, Callable[[Ground], list[Row]]]) -> list[Row]:
    """Measure the parts that are wanted, one after another on the same ground."""
    rows: list[Row] = []
    with ExitStack() as stack:
        ground = Ground(options, stack)
        for name, part in parts.items():
            if not options.only or name in options.only:
                say(f"{name} …")
                rows.extend(part(ground))
    return rows


def say(text: str) -> None:
    """Report progress; standard output is for results."""
    print(text, file=sys.stderr, flush=True)


def reason(failure: Exception) -> str:
    """Our own errors are whole sentences; others need their name to be understood."""
    if isinstance(failure, children.ChildFailed | servers.ServerMissing):
        return str(failure)
    return f"{type(failure).__name__}: {failure}"
