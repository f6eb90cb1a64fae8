"""A capability from outside takes part in everything, and the server knows no more of it than its name."""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import pytest

from longtake import open_database
from longtake.clock import SystemClock
from longtake.db.migrate import migrate_up
from longtake.server.application import Application
from longtake.server.capabilities import CAPABILITIES
from longtake.server.open_database import LOCATIONS
from longtake.server.process import working
from longtake.server.web import create_web
from longtake.settings import Settings
from tests.accounts.stage import Answer, ask, claims, serving, signed
from tests.wait import until

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from starlette.types import ASGIApp, Message

NOTES = "tests.service.notes"


@dataclass
class Service:
    """The whole application with a worker, without a socket."""

    application: Application
    web: ASGIApp

    async def ask(self, method: str, path: str, content: Any = None, user: str = "ann") -> Answer:
        return await ask(self.web, method, path, json=content, token=signed(claims(SystemClock(), sub=user)))

    async def notes(self, user: str = "ann") -> list[tuple[str, int | None]]:
        snapshot = (await self.ask("GET", "/v1/snapshot", user=user)).json
        return [(note["text"], note["words"]) for note in snapshot["notes"]]


@pytest.fixture
async def service(database_url: str, tmp_path: Path) -> AsyncIterator[Service]:
    migrate_up(database_url, [*LOCATIONS, NOTES])
    database = open_database(database_url)
    settings = Settings(data_dir=tmp_path, storage_url=f"file:{tmp_path}/objects", poll_seconds=0.05)
    application = Application(settings, database, capabilities=[*CAPABILITIES, NOTES])
    engine = application.build()
    async with contextlib.AsyncExitStack() as stack:
        stack.callback(database.close)
        await engine.start()
        await stack.enter_async_context(application.ready())
        for running in application.context.every(lambda one: one.beside_server):
            await stack.enter_async_context(running())
        await stack.enter_async_context(application.beside_worker())
        await stack.enter_async_context(working(application.worker()))
        known = replace(serving(engine), capabilities=application.routers(), actions=application.actions)
        yield Service(application, create_web(known, allowed_hosts=[], upload_bytes=1_000))


async def test_a_request_becomes_a_job_an_event_and_a_part_of_the_snapshot(service: Service) -> None:
    async with following(service.web, "note.counted") as told:
        answer = await service.ask("POST", "/v1/notes", {"text": "a red fox"})
        assert answer.status == 201
        event = await until(told, "the event")
    assert f'"subject":"{answer.json["id"]}"' in event
    assert '"words":3' in event
    assert await service.notes() == [("a red fox", 3)]
    assert await service.notes("bob") == []


async def test_its_events_can_be_asked_for_by_webhooks(service: Service) -> None:
    hook = {"url": "https://example.com/hook", "events": ["note.counted", "note.*"]}
    assert (await service.ask("POST", "/v1/webhooks", hook)).status == 201
    answer = await service.ask("POST", "/v1/webhooks", hook | {"events": ["note.written"]})
    assert (answer.status, answer.json["code"]) == (422, "REQUEST_INVALID")


async def test_it_is_described_like_the_rest(service: Service) -> None:
    document = (await service.ask("GET", "/openapi.json")).json
    assert "post" in document["paths"]["/v1/notes"]
    snapshot = document["components"]["schemas"]["SnapshotAnswer"]
    assert {"tasks", "credits", "notes"} <= set(snapshot["properties"])
    assert {"tasks", "credits", "notes"} <= set(snapshot["examples"][0])


async def test_operators_perform_its_actions(service: Service) -> None:
    await service.ask("POST", "/v1/notes", {"text": "a note"})

    async def figures(**arguments: str) -> Answer:
        return await ask(service.web, "POST", "/v1/operator/notes.figures", json=arguments, token="server-token")

    assert (await figures(user_id="ann")).json == {"notes": 1}
    assert (await figures(user_id="bob")).json == {"notes": 0}
    refused = (await figures()).json
    assert (refused["code"], refused["detail"]) == ("ACTION_ARGUMENT_INVALID", "notes.figures: user_id is missing.")


async def test_what_it_keeps_goes_with_the_account(service: Service) -> None:
    for user in ("ann", "bob"):
        await service.ask("POST", "/v1/notes", {"text": "a note"}, user=user)
    assert (await service.ask("DELETE", "/v1/account")).status == 202
    await until(service.notes, "the end of ann's notes", lambda notes: notes == [])
    assert [text for text, _words in await service.notes("bob")] == ["a note"]


@contextlib.asynccontextmanager
async def following(web: ASGIApp, types: str) -> AsyncIterator[Any]:
    """Yield a function that returns what a stream of these types has sent, once it has sent an event."""
    sent: list[str] = []
    first = iter([{"type": "http.request", "body": b"", "more_body": False}])

    async def receive() -> Message:
        for message in first:
            return message
        await asyncio.Event().wait()
        raise AssertionError

    async def send(message: Message) -> None:
        sent.append(message.get("body", b"").decode())

    token = signed(claims(SystemClock(), sub="ann"))
    headers = [(b"host", b"localhost"), (b"authorization", f"Bearer {token}".encode())]
    scope = {
        "type": "http", "method": "GET", "path": "/v1/events", "raw_path": b"/v1/events", "root_path": "",
        "query_string": f"types={types}".encode(), "scheme": "http", "http_version": "1.1", "headers": headers,
        "server": ("127.0.0.1", 80), "client": ("127.0.0.1", 1), "asgi": {"version": "3.0", "spec_version": "2.4"},
    }  # fmt: skip

    def told() -> str:
        return "".join(sent) if any(types in one for one in sent) else ""

    task = asyncio.ensure_future(web(scope, receive, send))
    await until(lambda: len(sent) > 1, "the start of the stream")
    try:
        yield told
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task
