"""The server that `longtake serve` runs, in a thread: a process of its own spends seconds on imports alone."""

from __future__ import annotations

import asyncio
import threading
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, TextIO
from unittest.mock import patch

import structlog
import uvloop

from longtake import logs
from longtake.capabilities.generation import watch
from longtake.server import server
from longtake.server.process import StopSignal, opened

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path
    from typing import Self

    from longtake.settings import Settings

#: Whose log lines these are. Threads of a database know of no server: what they say goes nowhere.
log_file: ContextVar[TextIO | None] = ContextVar("log_file", default=None)


class StopCall(StopSignal):
    """Signals reach the main thread alone, and that is the tests': here a call says that it is time to stop."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        pass

    def stop(self) -> None:
        self._loop.call_soon_threadsafe(self.event.set)


class ServerThread(threading.Thread):
    """Serves until it is told to stop; keeps what it failed of."""

    def __init__(self, settings: Settings, log: TextIO, *, with_worker: bool) -> None:
        super().__init__(name="longtake serve")
        self.failure: Exception | None = None
        self._settings = settings
        self._log = log
        self._with_worker = with_worker
        self._stop_call: StopCall | None = None

    def stop_signal(self) -> StopCall:
        """Stand in for StopSignal, whose constructor is called in the server's event loop."""
        self._stop_call = StopCall()
        return self._stop_call

    def run(self) -> None:
        log_file.set(self._log)
        try:
            server.require_keys_for_open_address(self._settings)
            with (
                server.listen(self._settings.host, self._settings.port) as listener,
                opened(self._settings, "longtake serve", server._url(self._settings.host, listener)) as application,
                asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner,
            ):
                runner.run(server._serve(application, listener, with_worker=self._with_worker))
        except Exception as error:  # noqa: BLE001 - raised where the server was started
            self.failure = error

    def stop(self) -> None:
        """Stop as the first signal would; fail with what the server failed of."""
        if self._stop_call is not None and self.is_alive():
            self._stop_call.stop()
        self.join()
        if self.failure is not None:
            raise self.failure


class Lines:
    """Writes log lines to the file of the server that they are of."""

    def msg(self, line: str) -> None:
        if (file := log_file.get()) is not None and not file.closed:
            file.write(line + "\n")
            file.flush()

    debug = info = warning = warn = error = critical = fatal = exception = msg


@contextmanager
def _logging_to_files(level: str) -> Iterator[None]:
    """Write lines as a server does, but never to where a test looks for the output of commands."""
    before = structlog.get_config()
    processors: list[Any] = [
        logs.add_context,
        structlog.processors.format_exc_info,
        logs.redact,
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        logs.render_json,
    ]
    structlog.configure(
        processors=processors,
        wrapper_class=structlog.make_filtering_bound_logger(level),
        logger_factory=lambda *_: Lines(),
        # Not cached: loggers of modules outlive this server.
        cache_logger_on_first_use=False,
    )
    try:
        yield
    finally:
        structlog.configure(**before)


@contextmanager
def in_thread(
    settings: Settings, log: Path, wait_until: Callable[[ServerThread], None], *, with_worker: bool
) -> Iterator[None]:
    """Serve until the block ends; `wait_until` returns when the server has started."""
    with log.open("a", encoding="utf-8") as file, _logging_to_files(settings.log_level):
        thread = ServerThread(settings, file, with_worker=with_worker)
        with patch.object(server, "StopSignal", thread.stop_signal):
            thread.start()
            try:
                wait_until(thread)
            except BaseException:
                thread.stop()
                raise
        # How soon watched tasks are asked about is tested with a stopped clock; here it would only be waited for.
        with patch.dict(watch.FAST_SECONDS, image=0.1, video=0.1), patch.object(watch, "ROUND_SECONDS", 0.05):
            try:
                yield
            finally:
                thread.stop()
