"""The routes of assets behind a real HTTP server, with real tokens."""

from __future__ import annotations

import socket
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import aiohttp
import orjson

from longtake import Engine
from longtake.adapters.net import HttpClient
from longtake.capabilities.media.imports import Imports
from longtake.capabilities.media.mirror import MIRROR_LANE, Mirror
from longtake.capabilities.media.routes import Media, build_routes
from longtake.capability import AssetOwner
from longtake.clock import SystemClock
from longtake.server.web import create_web
from longtake.services.assets import AssetLinks, NewAsset, find_assets, register_asset
from longtake.services.assets.files import keep_bytes
from tests.accounts.stage import claims, serving, signed
from tests.databases import StoppedClock
from tests.http_server import answering

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping

    from longtake import Database
    from longtake.adapters.storage import Storage
    from longtake.services.assets import Asset

SECRET = b"links are signed with this secret"
REFERENCE_BYTES = 200_000


@dataclass
class Answer:
    """What the server answered."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return orjson.loads(self.body)


def token(user: str = "alice", **changes: Any) -> str:
    return signed(claims(SystemClock(), sub=user, **changes))


class Service:
    """A running server, and a client that follows no redirect."""

    def __init__(self, database: Database, storage: Storage) -> None:
        self.database = database
        self.storage = storage
        self.clock = StoppedClock()
        mirror = Mirror(database, storage, HttpClient(), most_bytes=1_000_000)
        self.engine = Engine(database, [mirror.kind()], [MIRROR_LANE])
        self.imports = Imports(database, HttpClient(), most_unfinished=5)
        self.links = AssetLinks(storage, lambda: SECRET, "", self.clock)
        self.url = ""
        self._client: aiohttp.ClientSession | None = None

    @asynccontextmanager
    async def running(self) -> AsyncIterator[Service]:
        await self.engine.start()
        listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        self.links.public_url = self.url
        media = Media(
            self.database,
            self.engine,
            self.storage,
            self.links,
            self.imports,
            AssetOwner(),
            REFERENCE_BYTES,
        )
        routes = build_routes(media)
        web = create_web(
            replace(serving(self.engine), capabilities=[routes]), allowed_hosts=[], upload_bytes=REFERENCE_BYTES
        )
        async with answering(web, listener), aiohttp.ClientSession() as self._client:
            yield self

    async def ask(
        self,
        method: str,
        path: str,
        *,
        user: str | None = "alice",
        body: Any = None,
        headers: Mapping[str, str] | None = None,
    ) -> Answer:
        sent = dict(headers or {})
        if user is not None:
            sent["Authorization"] = f"Bearer {token(user)}"
        assert self._client is not None
        url = path if path.startswith("http") else self.url + path
        async with self._client.request(method, url, data=body, headers=sent, allow_redirects=False) as answer:
            return Answer(
                answer.status, {name.lower(): value for name, value in answer.headers.items()}, await answer.read()
            )

    async def keep(self, body: bytes, kind: Any = "image", user: str = "alice") -> str:
        """Store a result of a user's that came as bytes."""
        new = await keep_bytes(self.storage, NewAsset(user_id=user, kind=kind), body, "token")
        return await self.database.run(register_asset, new)

    async def asset(self, asset_id: str) -> Asset:
        return (await self.database.read(find_assets, [asset_id]))[asset_id]
