"""Logging: one format for Longtake and all libraries, with the request or job, and without secrets.

`log_context` holds the fields that every line gets: the web layer sets request_id, the worker job_id and job_kind. It
costs one `ContextVar.set`, so a worker can afford it for every job::

    token = log_context.set({"job_id": job.id, "job_kind": job.kind})
"""

import json
import logging
import re
import sys
from collections.abc import Mapping, MutableMapping
from contextvars import ContextVar
from types import MappingProxyType
from typing import Any, Literal, TextIO

import orjson
import structlog
from structlog.typing import EventDict, Processor

from longtake.redaction import redact_value

LogFormat = Literal["auto", "json", "human"]
LogLevel = Literal["debug", "info", "warning", "error"]

log_context: ContextVar[Mapping[str, str]] = ContextVar("log_context", default=MappingProxyType({}))


def request_id() -> str:
    """Return the id that this request has in logs, rows and answers; empty outside of a request."""
    return log_context.get().get("request_id", "")


# The lowest level of libraries that install their own handlers or are noisy below it.
_LIBRARY_LEVELS = {
    "uvicorn": logging.INFO,
    "uvicorn.error": logging.INFO,
    "uvicorn.access": logging.INFO,
    "sqlalchemy": logging.WARNING,
    "alembic": logging.WARNING,
    "asyncio": logging.WARNING,
}
# All but line feed and tab: a value must not forge lines or control a terminal.
_CONTROL_CHARACTERS = {code: f"\\x{code:02x}" for code in [*range(9), *range(11, 32), *range(127, 160)]}
_NOT_ASCII = re.compile(r"[^\x00-\x7f]")
_ONE_LINE = _CONTROL_CHARACTERS | {9: "\\t", 10: "\\n"}


def configure_logs(log_format: LogFormat, level: LogLevel, stream: TextIO | None = None) -> None:
    """Send every log line of this process to `stream`. None means the sys.stderr at the time of writing."""
    output = Output(stream)
    if log_format == "auto":
        log_format = "human" if output.is_terminal() else "json"
    renderer = render_json if log_format == "json" else _human_renderer(colors=output.is_terminal())
    processors: list[Processor] = [
        add_context,
        structlog.processors.StackInfoRenderer(),
        # Plain text, never with local variables: they may hold secrets.
        structlog.processors.format_exc_info,
        redact,
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        renderer,
    ]
    number = logging.getLevelNamesMapping()[level.upper()]
    structlog.configure(
        processors=processors,
        wrapper_class=structlog.make_filtering_bound_logger(number),
        logger_factory=lambda *_: output,
        cache_logger_on_first_use=True,
    )
    _route_standard_library(StandardLibraryHandler(processors, output), number)


def add_context(_logger: Any, _method: str, event: EventDict) -> EventDict:
    """Add the fields of `log_context`. The caller's own fields take precedence."""
    context = log_context.get()
    return {**context, **event} if context else event


def redact(_logger: Any, _method: str, event: EventDict) -> EventDict:
    """Mask secrets and reduce all values to plain data. Tracebacks are text by now."""
    return {name: redact_value(name, value) for name, value in event.items()}


def render_json(_logger: Any, _method: str, event: EventDict) -> str:
    """Return the event as one line of JSON, with timestamp, level and event first."""
    line = {"timestamp": event.pop("timestamp"), "level": event.pop("level"), "event": event.pop("event"), **event}
    try:
        return orjson.dumps(line, default=str, option=orjson.OPT_UTC_Z).decode()
    except orjson.JSONEncodeError:
        # A lone surrogate, or a number beyond 64 bits. Rare, but no reason to lose the line.
        return json.dumps(line, default=str)


def _human_renderer(*, colors: bool) -> Processor:
    console = structlog.dev.ConsoleRenderer(colors=colors, exception_formatter=structlog.dev.plain_traceback)

    def render(logger: Any, method: str, event: EventDict) -> str:
        for name, value in event.items():
            if isinstance(value, str):
                event[name] = value.translate(_CONTROL_CHARACTERS if name in {"exception", "stack"} else _ONE_LINE)
        return str(console(logger, method, event))

    return render


class Output:
    """Writes lines to a stream. A line that cannot be written is dropped: logging never stops the work."""

    def __init__(self, stream: TextIO | None) -> None:
        self._stream = stream

    def is_terminal(self) -> bool:
        stream = self._stream or sys.stderr
        return stream is not None and not stream.closed and stream.isatty()

    def write(self, line: str) -> None:
        """Write the line in one piece, so that lines of several threads do not interleave."""
        stream = self._stream or sys.stderr
        try:
            try:
                stream.write(line + "\n")
            except UnicodeEncodeError:
                # Escaped as in JSON, so that a JSON line stays valid.
                stream.write(_NOT_ASCII.sub(lambda match: json.dumps(match[0])[1:-1], line) + "\n")
            stream.flush()
        except (OSError, ValueError, AttributeError):
            # A closed pipe, a full disk, a closed stream, no stream at all.
            return

    # structlog calls the method named after the level.
    debug = info = warning = error = critical = exception = msg = log = write


class StandardLibraryHandler(logging.Handler):
    """Sends records of the standard library's logging through the same processors to the same output."""

    def __init__(self, processors: list[Processor], output: Output) -> None:
        super().__init__()
        self._processors = processors
        self._output = output

    def emit(self, record: logging.LogRecord) -> None:
        """Write the record. If it cannot be formatted, write its logger's name, but not its arguments."""
        event: MutableMapping[str, Any] = {"logger": record.name}
        try:
            event["event"] = record.getMessage()
            event["exc_info"] = record.exc_info
            self._output.write(self._render(record.levelname.lower(), event))
        except Exception as error:  # noqa: BLE001 - logging must not raise into the library that logs
            event = {
                "logger": record.name,
                "event": "a log record could not be formatted",
                "error": type(error).__name__,
            }
            self._output.write(self._render("error", event))

    def _render(self, level: str, event: MutableMapping[str, Any]) -> str:
        rendered: Any = event
        for processor in self._processors:
            rendered = processor(None, level, rendered)
        return str(rendered)


def _route_standard_library(handler: logging.Handler, level: int) -> None:
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level)
    logging.captureWarnings(capture=True)
    for name, least in _LIBRARY_LEVELS.items():
        library = logging.getLogger(name)
        library.handlers.clear()
        library.propagate = True
        library.setLevel(max(level, least))
