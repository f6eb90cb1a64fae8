"""Connections of the HTTP server, available to the few answers that must close one by force."""

from __future__ import annotations

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from longtake.services.live.routes import TRANSPORT


class HttpProtocol(HttpToolsProtocol):
    """HTTP/1.1 as uvicorn speaks it; requests come with their connection."""

    def on_message_begin(self) -> None:
        """Begin a request."""
        super().on_message_begin()
        self.scope["extensions"] = {TRANSPORT: self.transport}  # type: ignore[dict-item]
