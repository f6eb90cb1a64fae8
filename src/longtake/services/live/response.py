"""The answer that does not end: a stream's pieces, sent until the stream or its client has enough."""

from __future__ import annotations

import contextlib
import logging
import socket
from typing import TYPE_CHECKING, Any

from sse_starlette import EventSourceResponse

from longtake.services.live.sse import Reason

if TYPE_CHECKING:
    from starlette.types import Message, Receive, Scope, Send

    from longtake.services.live.streams import Stream

#: Under which the server hands over the connection itself: only with it one that takes nothing more can be ended.
TRANSPORT = "longtake.transport"
#: A client that acknowledges nothing for so long is gone, whatever its network says.
VANISHED_SECONDS = 30

# It would write every piece of every stream into a log of level debug.
logging.getLogger("sse_starlette").setLevel(logging.INFO)


class EventStreamResponse(EventSourceResponse):
    """Sends as fast as the client takes; however it ends, the stream is closed."""

    def __init__(self, stream: Stream) -> None:
        # Heartbeats are the stream's own: they carry its place.
        super().__init__(stream.pieces(), ping=0, client_close_handler_callable=self._gone)
        self._stream = stream

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send everything there is to send."""
        transport = (scope.get("extensions") or {}).get(TRANSPORT)
        if transport is not None:
            self._stream.reader.hang_up = transport.abort
            _notice_vanishing(transport)
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._stream.close()

    async def _gone(self, _message: Message) -> None:
        self._stream.reader.end(Reason.CLIENT_GONE)


def _notice_vanishing(transport: Any) -> None:
    """Let the system end the connection when what was sent is not acknowledged. Not every system can."""
    connection = transport.get_extra_info("socket")
    option = getattr(socket, "TCP_USER_TIMEOUT", None)
    if connection is not None and option is not None:
        with contextlib.suppress(OSError):
            connection.setsockopt(socket.IPPROTO_TCP, option, VANISHED_SECONDS * 1000)
