"""Whatever a request reads for its caller is read as that caller: PostgreSQL then shows nobody else's rows.

A forgotten `as_user` changes no answer as long as the statement asks for the right user itself, so that only this test
finds it. The routes come from the description: one that is added later is among them by itself.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from longtake import open_database
from longtake.capabilities.catalogue.service import Catalogue
from longtake.clock import SystemClock
from longtake.server.application import Application
from longtake.server.web import create_api
from longtake.services.credits import grant
from longtake.settings import Settings
from tests.accounts.stage import Answer, ask, claims, serving, signed
from tests.api.stage import picture
from tests.api.test_description import OPEN, examples, operations
from tests.api.test_tenancy import FOR_OPERATORS, NOBODYS

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable
    from pathlib import Path

    from longtake import Database, Transaction

#: A stream without end; what it reads is in `tests/live`.
ENDLESS = "/v1/events"
METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE")
#: Reads of what belongs to no user: titles, how long tasks and images take, jobs and lanes, the end of the log.
UNBOUND = {
    "longtake.capabilities.catalogue.queries.get_title",
    "longtake.capabilities.catalogue.queries.list_titles",
    "longtake.capabilities.catalogue.queries.read_status",
    "longtake.capabilities.generation.outlook._read_durations",
    "longtake.capabilities.generation.outlook.read_queues",
    "longtake.capabilities.generation.outlook._read_jobs",
    "longtake.capabilities.scenes.queue.read_outlook",
    "longtake.server.snapshot.begin",
}


class Bound:
    """The whole API in this process on PostgreSQL, and which of its reads were made as nobody in particular."""

    def __init__(self, database: Database, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        settings = Settings(
            data_dir=folder, storage_url=f"file:{folder}/objects", kie_api_key="a-key", kie_base_url="http://127.0.0.1:9",
            gemini_api_key="a-key", gemini_base_url="http://127.0.0.1:9",
            public_url="http://127.0.0.1:9", allow_addresses="127.0.0.1/32",
        )  # fmt: skip
        self.database = database
        self.application = Application(settings, database)
        self.engine = self.application.build()
        self.api = create_api(replace(serving(self.engine), capabilities=self.application.routers()))
        self.document = self.api.openapi()
        self.token = signed(claims(SystemClock(), sub="bob"))
        self.unbound: set[str] = set()
        read = database.read

        async def noted(function: Callable[..., Any], *arguments: Any, as_user: str | None = None) -> Any:
            if as_user != "bob":
                self.unbound.add(f"{function.__module__}.{function.__qualname__}")
            return await read(function, *arguments, as_user=as_user)

        monkeypatch.setattr(database, "read", noted)

    async def start(self) -> None:
        def give(tx: Transaction) -> None:
            grant(tx, user_id="bob", amount=1_000, reason="test", made_by="test")

        await self.engine.start()
        await self.application.keys.refresh()
        await self.database.run(give)
        # What is read at the start is nobody's request.
        self.unbound.clear()

    async def ask(self, method: str, path: str, json: Any = None, body: bytes | None = None) -> Answer:
        headers = {"content-type": "image/png"} if body else {}
        answer = await ask(self._app, method, path, token=self.token, json=json, body=body, headers=headers)
        forgotten = self.unbound - UNBOUND
        assert not forgotten, f"{method} {path} reads without as_user: {forgotten}"
        return answer

    async def _app(self, scope: dict[str, Any], receive: Any, send: Any) -> None:
        # So that nobody waits for a caller who hangs up, which this one never does.
        await self.api({**scope, "asgi": {"version": "3.0", "spec_version": "2.4"}}, receive, send)

    async def make_one_of_each(self) -> dict[str, str]:
        """Return bob's ids, by what they are called in paths."""
        conversation = await self.ask("POST", "/v1/conversations", {"title": "Foxes"})
        wanted = {"model": "nano-banana", "prompt": "a fox", "conversation_id": conversation.json["id"]}
        task = await self.ask("POST", "/v1/images/generate", wanted)
        asset = await self.ask("POST", "/v1/references", body=picture())
        key = await self.ask("POST", "/v1/keys", {"name": "bob's"})
        webhook = await self.ask("POST", "/v1/webhooks", {"url": "http://127.0.0.1:9/"})
        delivery = await self.ask("POST", f"/v1/webhooks/{webhook.json['id']}/test")
        run = await self.ask("POST", "/v1/runs", {"scenes": [{"prompt": "a fox"}] * 3, "advance": True})
        made = {"run_id": run, "conversation_id": conversation, "task_id": task, "asset_id": asset, "key_id": key}
        made |= {"webhook_id": webhook, "delivery_id": delivery}
        title = await Catalogue.of(self.application.context, self.engine).add({"title_english": "Fox"})
        return {name: answer.json["id"] for name, answer in made.items()} | {"title_id": title[1].id}

    def example(self, operation: dict[str, Any]) -> Any:
        for media_type, body in operation.get("requestBody", {}).get("content", {}).items():
            if media_type == "application/json":
                return examples(self.document, body)[0]
        return None


@pytest.fixture
async def bound(postgresql_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Bound]:
    database = open_database(postgresql_url)
    opened = Bound(database, tmp_path, monkeypatch)
    await opened.start()
    yield opened
    await opened.application.close()
    database.close()


async def test_every_read_for_a_caller_is_made_as_the_caller(bound: Bound) -> None:
    ids = await bound.make_one_of_each()
    # What removes comes last, and the account itself after everything.
    found = sorted(operations(bound.document), key=lambda one: (METHODS.index(one[0]), one[1] == "/v1/account"))
    answered = 0
    for method, path, operation in found:
        if path in OPEN or path == ENDLESS or path.startswith(FOR_OPERATORS):
            continue
        answer = await bound.ask(method, path.format(**ids, **NOBODYS), bound.example(operation))
        assert answer.status < 500, f"{method} {path}: {answer.body!r}"
        answered += answer.status < 400
    assert answered >= 35, "or too little was read to say anything"
    assert bound.unbound == UNBOUND, "what is read no more needs no exception"
