"""Errors as problems, whatever raises them; and what a bug tells the outside."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

import pytest
from fastapi import FastAPI

import longtake
from longtake.adapters.storage.errors import StorageUnavailable
from longtake.db.errors import DatabaseBusy, DatabaseReadOnly, DatabaseUnavailable, RightsMissing, SchemaMismatch
from longtake.engine.errors import UnknownKind
from longtake.errors import LongtakeError, NotFound, StateConflict
from longtake.http.problems import error_response, install_handlers
from longtake.server.middleware import Frame

for _file in (Path(longtake.__file__).parent).rglob("errors.py"):
    importlib.import_module(".".join(_file.relative_to(Path(longtake.__file__).parent.parent).with_suffix("").parts))


def family(kind: type[LongtakeError]) -> list[type[LongtakeError]]:
    return [kind, *(member for child in kind.__subclasses__() for member in family(child))]


async def call(app: Any, path: str) -> tuple[int, dict[str, str], bytes]:
    """Send one GET through the application and collect the answer."""
    scope = {
        "type": "http", "method": "GET", "path": path, "raw_path": path.encode(), "query_string": b"", "root_path": "",
        "scheme": "http", "http_version": "1.1", "headers": [(b"host", b"localhost")], "server": ("127.0.0.1", 80),
        "client": ("127.0.0.1", 1),
    }  # fmt: skip
    sent: list[dict[str, Any]] = []

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: dict[str, Any]) -> None:
        sent.append(message)

    await app(scope, receive, send)
    headers = {name.decode(): value.decode() for name, value in sent[0]["headers"]}
    return sent[0]["status"], headers, b"".join(message.get("body", b"") for message in sent)


@pytest.mark.parametrize("kind", family(LongtakeError), ids=lambda kind: kind.__name__)
def test_every_error_has_a_status_of_its_own_kind(kind: type[LongtakeError]) -> None:
    response = error_response(kind("What went wrong.", hint="What to do."))
    assert 400 <= response.status_code < 600
    assert kind.code.encode() in response.body
    assert ("retry-after" in response.headers) == issubclass(kind, DatabaseUnavailable | StorageUnavailable)


@pytest.mark.parametrize(
    ("kind", "status"),
    [
        (UnknownKind, 422),
        (NotFound, 404),
        (StateConflict, 409),
        (DatabaseBusy, 503),
        (DatabaseReadOnly, 503),
        (SchemaMismatch, 503),
        (RightsMissing, 500),
    ],
)
def test_statuses_callers_rely_on(kind: type[LongtakeError], status: int) -> None:
    assert error_response(kind("x")).status_code == status


async def test_a_bug_tells_the_outside_nothing_but_where_to_look() -> None:
    app = FastAPI()

    @app.get("/broken")
    async def broken() -> None:
        raise ValueError("the password is hunter2")

    install_handlers(app)
    status, headers, body = await call(Frame(app, []), "/broken")
    assert (status, headers["content-type"]) == (500, "application/problem+json")
    assert b"INTERNAL_ERROR" in body
    assert b"hunter2" not in body
    assert headers["x-request-id"].encode() in body


async def test_even_a_broken_application_is_answered_for() -> None:
    async def broken(_scope: Any, _receive: Any, _send: Any) -> None:
        raise RuntimeError("before anything was sent")

    status, _headers, body = await call(Frame(broken, []), "/")
    assert status == 500
    assert b"INTERNAL_ERROR" in body


async def test_the_bound_name_is_ours() -> None:
    app = FastAPI()
    install_handlers(app)

    async def status_for(frame: Frame, host: bytes) -> int:
        async def with_host(scope: Any, receive: Any, send: Any) -> None:
            await frame({**scope, "headers": [(b"host", host)], "server": ("192.0.2.7", 80)}, receive, send)

        return (await call(with_host, "/"))[0]

    frame = Frame(app, ["media.internal"])
    assert await status_for(frame, b"media.internal:8484") == 404
    assert await status_for(frame, b"192.0.2.7") == 404, "the address the connection came to"
    assert await status_for(frame, b"192.0.2.8") == 421
