"""A worker's process: open, work until a signal, stop in order. A server's process shares these parts."""

import asyncio
import contextlib
import gc
import signal
from collections.abc import AsyncIterator, Coroutine, Iterator
from types import FrameType
from typing import Any, Self

import structlog
import uvloop

from longtake.engine.worker import Worker
from longtake.logs import configure_logs
from longtake.server.application import Application, find_register
from longtake.server.errors import ProcessFailed
from longtake.server.open_database import open_for_service
from longtake.settings import Settings
from longtake.settings.service import FAREWELL_SECONDS

SIGNALS = (signal.SIGTERM, signal.SIGINT)

log = structlog.get_logger(__name__)


class StopSignal:
    """Hears SIGTERM and SIGINT while it is entered, on the main thread.

    The first asks to stop in order; the second is left to the system, which ends the process at once.
    """

    def __init__(self) -> None:
        self.event = asyncio.Event()
        self._loop = asyncio.get_running_loop()
        self._before: dict[signal.Signals, Any] = {}

    def __enter__(self) -> Self:
        for number in SIGNALS:
            self._before[number] = signal.signal(number, self._hear)
        return self

    def __exit__(self, *_error: object) -> None:
        for number, handler in self._before.items():
            if signal.getsignal(number) == self._hear:
                signal.signal(number, handler)

    def _hear(self, _number: int, _frame: FrameType | None) -> None:
        # From here on the system's own way: a process that hangs while stopping can still be ended.
        for number in SIGNALS:
            signal.signal(number, signal.SIG_DFL)
        self._loop.call_soon_threadsafe(self.event.set)


def run_worker(settings: Settings) -> None:
    """Work until a signal comes."""
    configure_logs(settings.log_format, settings.log_level)
    with opened(settings, "longtake worker") as application:
        run_event_loop(_work(application))


@contextlib.contextmanager
def opened(settings: Settings, owner: str, own_url: str = "") -> Iterator[Application]:
    """Open the database and declare everything, including what `--app` names."""
    register = find_register(settings.app)
    database = open_for_service(settings, owner)
    try:
        application = Application(settings, database, own_url=own_url)
        application.build(register)
        # Before anything is done: with a wrong key nothing may be written or sent.
        database.run_blocking(application.vault.check)
        yield application
    finally:
        database.close()


def run_event_loop(main: Coroutine[Any, Any, None]) -> None:
    """Run to the end on the faster event loop."""
    # What is loaded by now stays: the collector need not walk over it again and again, while requests wait.
    gc.collect()
    gc.freeze()
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(main)


@contextlib.asynccontextmanager
async def working(worker: Worker) -> AsyncIterator[asyncio.Task[None]]:
    """Let the worker work; at the end stop it within its grace."""
    task = asyncio.create_task(worker.run())
    try:
        yield task
    finally:
        worker.stop()
        done, _late = await asyncio.wait([task], timeout=worker.stop_grace_seconds + FAREWELL_SECONDS)
        if not done:
            log.error("the worker could not stop in order; its lease will run out", action="stop", worker=worker.id)
            task.cancel()


async def until_stopped(stop: StopSignal, *parts: asyncio.Task[None]) -> None:
    """Wait for the signal; raise an error if a part ends before it."""
    stopped = asyncio.create_task(stop.event.wait())
    try:
        await asyncio.wait([stopped, *parts], return_when=asyncio.FIRST_COMPLETED)
        for part in parts:
            if part.done() and not stop.event.is_set():
                error = part.exception()
                log.critical("a part of this process has ended by itself", action="fail", exc_info=error)
                raise ProcessFailed(f"A part of this process ended by itself: {error!r}.") from error
    finally:
        stopped.cancel()


async def _work(application: Application) -> None:
    with StopSignal() as stop:
        await application.engine.start()
        async with application.ready(), application.beside_worker(), working(application.worker()) as task:
            await until_stopped(stop, task)
