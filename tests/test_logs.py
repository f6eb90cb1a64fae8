"""What a log line holds, and what it must not hold."""

import contextvars
import io
import json
import logging
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import structlog

from longtake.logs import LogFormat, LogLevel, configure_logs, log_context

SECRET = "hunter2"


@pytest.fixture(autouse=True)
def as_before() -> Iterator[None]:
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    logging.captureWarnings(capture=False)
    structlog.reset_defaults()
    root.handlers[:] = handlers
    root.setLevel(level)


def configured(log_format: LogFormat = "json", level: LogLevel = "info") -> tuple[Any, Callable[[], list[str]]]:
    stream = io.StringIO()
    configure_logs(log_format, level, stream)
    return structlog.get_logger(), lambda: stream.getvalue().splitlines()


def fail(message: str, _hidden: str = "") -> None:
    raise ConnectionError(message)


def test_a_json_line_has_time_level_event_and_fields() -> None:
    log, lines = configured()
    log.info("job done", seconds=1.5, lane="kie")
    line = json.loads(lines()[0])
    assert list(line) == ["timestamp", "level", "event", "seconds", "lane"]
    assert line["timestamp"].endswith("Z")
    assert (line["level"], line["event"], line["seconds"]) == ("info", "job done", 1.5)


def test_a_human_line_is_one_line_without_colours_in_a_file() -> None:
    log, lines = configured("human")
    log.warning("lane paused", lane="kie")
    assert len(lines()) == 1
    assert "lane paused" in lines()[0]
    assert "lane=kie" in lines()[0]
    assert "\x1b" not in lines()[0]


def test_auto_is_human_on_a_terminal_and_json_elsewhere() -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    terminal = Terminal()
    configure_logs("auto", "info", terminal)
    structlog.get_logger().info("hello")
    assert not terminal.getvalue().startswith("{")
    log, lines = configured("auto")
    log.info("hello")
    assert json.loads(lines()[0])["event"] == "hello"


def test_less_important_lines_are_left_out() -> None:
    log, lines = configured(level="warning")
    log.info("no")
    logging.getLogger("anything").info("no")
    log.error("yes")
    assert [json.loads(line)["event"] for line in lines()] == ["yes"]


def test_every_line_says_whose_work_it_was() -> None:
    log, lines = configured()

    def work() -> None:
        log_context.set({"job_id": "0199", "job_kind": "generation.poll"})
        log.info("ours")
        logging.getLogger("sqlalchemy.pool").warning("the library's")
        log.info("overridden", job_id="other")

    contextvars.copy_context().run(work)
    log.info("nobody's")
    ours, library, overridden, nobody = map(json.loads, lines())
    assert ours["job_id"] == library["job_id"] == "0199"
    assert library["job_kind"] == "generation.poll"
    assert overridden["job_id"] == "other"
    assert "job_id" not in nobody


@pytest.mark.parametrize("log_format", ["json", "human"])
def test_secrets_are_masked_everywhere(log_format: LogFormat) -> None:
    log, lines = configured(log_format)
    address = f"postgresql://me:{SECRET}@db/x"
    connecting = f"connecting to {address}"
    log.info(connecting, password=SECRET, headers={"Authorization": f"Bearer {SECRET}"}, url=address)
    log.info("failed", error=ValueError(address), job_key="poster:12")
    logging.getLogger("library").warning("cannot open %s with token=%s", address, SECRET)
    try:
        fail(address)
    except ConnectionError:
        log.exception("lost")
        logging.getLogger("library").exception("lost as well")
    text = "\n".join(lines())
    assert SECRET not in text
    assert text.count("postgresql://me:***@db/x") == 6
    assert text.count("Traceback (most recent call last)") == 2
    assert "poster:12" in text


def test_local_variables_are_not_in_tracebacks() -> None:
    log, lines = configured("human")
    try:
        fail("something", SECRET.upper())
    except ConnectionError:
        log.exception("failed")
    assert SECRET.upper() not in "\n".join(lines())


def test_libraries_write_to_the_same_place_in_the_same_shape() -> None:
    uvicorn = logging.getLogger("uvicorn.access")
    uvicorn.propagate = False
    uvicorn.addHandler(logging.StreamHandler())
    _, lines = configured()
    uvicorn.info('%s - "%s" %d', "127.0.0.1", "GET /healthz", 200)
    line = json.loads(lines()[0])
    assert line["logger"] == "uvicorn.access"
    assert line["level"] == "info"
    assert line["event"] == '127.0.0.1 - "GET /healthz" 200'
    assert not uvicorn.handlers


def test_statements_are_not_logged_even_at_debug() -> None:
    _, lines = configured(level="debug")
    logging.getLogger("sqlalchemy.engine.Engine").info("SELECT 1")
    assert lines() == []


def test_warnings_are_log_lines() -> None:
    _, lines = configured()
    warnings.filterwarnings("always", "odd")
    warnings.warn("odd", stacklevel=1)
    assert json.loads(lines()[0])["logger"] == "py.warnings"


def test_a_record_that_cannot_be_formatted_is_reported_without_its_arguments() -> None:
    _, lines = configured()
    logging.getLogger("library").warning("%d jobs", SECRET)
    line = json.loads(lines()[0])
    assert line["event"] == "a log record could not be formatted"
    assert (line["logger"], line["error"]) == ("library", "TypeError")
    assert SECRET not in lines()[0]


def test_values_cannot_forge_lines_or_steer_the_terminal() -> None:
    log, lines = configured("human")
    log.info("name\nforged", name="a\nforged\x1b[2J\r")
    assert len(lines()) == 1
    assert "\x1b" not in lines()[0]
    assert "\r" not in lines()[0]


def test_odd_values_do_not_lose_the_line() -> None:
    log, lines = configured()
    log.info("odd", big=2**70, half="\ud800", data=b"\xff", nothing=None)
    line = json.loads(lines()[0])
    assert line["big"] == 2**70
    assert line["nothing"] is None


class Broken(io.StringIO):
    def write(self, _text: str, /) -> int:
        raise BrokenPipeError


def test_a_stream_that_cannot_be_written_to_does_not_stop_the_work() -> None:
    closed = io.StringIO()
    closed.close()
    for stream in (closed, Broken()):
        configure_logs("json", "info", stream)
        structlog.get_logger().info("into the void")
        logging.getLogger("library").warning("into the void")


def test_a_narrow_encoding_does_not_lose_the_line() -> None:
    raw = io.BytesIO()
    configure_logs("json", "info", io.TextIOWrapper(raw, encoding="ascii"))
    structlog.get_logger().info("Grüße")
    assert json.loads(raw.getvalue())["event"] == "Grüße"


def test_without_a_stream_the_line_goes_to_stderr_as_it_is_then(capsys: pytest.CaptureFixture[str]) -> None:
    configure_logs("json", "info")
    structlog.get_logger().info("hello")
    captured = capsys.readouterr()
    assert json.loads(captured.err)["event"] == "hello"
    assert captured.out == ""
