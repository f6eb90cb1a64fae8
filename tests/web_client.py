"""Requests to some routes alone, as a caller of the test's choice, without a network."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

from fastapi import APIRouter, FastAPI

from longtake.http.problems import install_handlers
from longtake.services.accounts.caller import SCOPES_OF_ROLE, Caller
from longtake.services.accounts.current_caller import current_caller

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True)
class Answer:
    """What the routes answered."""

    status: int
    json: Any


class Client:
    """Somebody who calls the routes of one router."""

    def __init__(
        self,
        router: APIRouter,
        user_id: str,
        role: str = "user",
        scopes: frozenset[str] | None = None,
        key_id: str | None = None,
    ) -> None:
        self._app = FastAPI()
        self._app.include_router(router)
        install_handlers(self._app)
        caller = Caller(user_id, role, SCOPES_OF_ROLE[role] if scopes is None else scopes, key_id)
        self._app.dependency_overrides[current_caller] = lambda: caller

    async def get(self, path: str, **parameters: Any) -> Answer:
        return await self._ask("GET", path, parameters, None)

    async def post(self, path: str, content: Any = None) -> Answer:
        return await self._ask("POST", path, {}, content)

    async def patch(self, path: str, content: Any) -> Answer:
        return await self._ask("PATCH", path, {}, content)

    async def _ask(self, method: str, path: str, parameters: Mapping[str, Any], content: Any) -> Answer:
        # json.dumps writes half a character as an escape, as any client might.
        body = b"" if content is None else json.dumps(content).encode()
        scope = {
            "type": "http", "method": method, "path": path, "raw_path": path.encode(), "root_path": "",
            "query_string": urlencode(parameters).encode(), "scheme": "http", "http_version": "1.1",
            "server": ("127.0.0.1", 80), "client": ("127.0.0.1", 1),
            "headers": [(b"host", b"localhost"), (b"content-type", b"application/json")],
        }  # fmt: skip
        sent: list[dict[str, Any]] = []

        async def receive() -> dict[str, Any]:
            return {"type": "http.request", "body": body, "more_body": False}

        async def send(message: Any) -> None:
            sent.append(message)

        await self._app(scope, receive, send)
        answer = b"".join(message.get("body", b"") for message in sent)
        return Answer(sent[0]["status"], json.loads(answer))
