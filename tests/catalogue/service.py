"""The routes of the catalogue in this process, with a studio behind them, while time stands still.

Only those: building the routes of all capabilities would take longer than most tests.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from longtake.capabilities.catalogue import routes as catalogue_routes
from longtake.clock import SystemClock
from longtake.server.web import create_api
from tests.accounts.stage import Answer, ask, claims, serving, signed

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tests.catalogue.stage import CatalogueStudio


class Service:
    """Sends requests as somebody of a role, or as nobody."""

    def __init__(self, studio: CatalogueStudio) -> None:
        routers = [
            catalogue_routes.build_routes(studio.catalogue),
            catalogue_routes.build_poster_routes(studio.database, studio.storage),
        ]
        self.api = create_api(replace(serving(studio.engine), capabilities=routers))

    async def ask(
        self,
        method: str,
        path: str,
        json: Any = None,
        *,
        role: str | None = "operator",
        headers: Mapping[str, str] | None = None,
        body: bytes | None = None,
    ) -> Answer:
        """Send a request."""
        token = None if role is None else signed(claims(SystemClock(), sub="root", role=role))
        return await ask(self._app, method, path, token=token, json=json, body=body, headers=headers)

    async def _app(self, scope: dict[str, Any], receive: Any, send: Any) -> None:
        path, _mark, query = scope["path"].partition("?")
        read = {"path": unquote(path), "raw_path": path.encode(), "query_string": query.encode()}
        # So that nobody waits for a caller who hangs up, which this one never does.
        await self.api({**scope, **read, "asgi": {"version": "3.0", "spec_version": "2.4"}}, receive, send)
