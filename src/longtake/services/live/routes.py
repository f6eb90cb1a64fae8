"""`/v1/events`: the stream of a user's events, and the response that sends it."""

import contextlib
import logging
import socket
from collections.abc import Awaitable, Callable, Sequence
from typing import Annotated, Any

from fastapi import APIRouter, Header, Query, Request, Response
from pydantic import AfterValidator
from sse_starlette import EventSourceResponse
from starlette.types import Message, Receive, Scope, Send

from longtake.capability import Context
from longtake.engine.engine import Engine
from longtake.engine.events import check_pattern, patterns_of
from longtake.errors import LongtakeError
from longtake.http.problem_schema import CALLER, problems
from longtake.services.accounts.authenticator import Authenticator
from longtake.services.accounts.current_caller import Caller, CurrentCaller
from longtake.services.accounts.errors import Forbidden, Unauthorized
from longtake.services.live.event_log import read_cursor
from longtake.services.live.feed import Feed
from longtake.services.live.streams import EndReason, Stream, StreamLimits, Streams

#: ASGI extension with the connection's transport, which is needed to abort a connection that accepts no more bytes.
TRANSPORT = "longtake.transport"
#: A client that acknowledges nothing for this long is gone.
VANISHED_SECONDS = 30
CURSOR_LENGTH = 100
TYPES_LENGTH = 500
EXAMPLE = 'id: 8124.60\nevent: task.completed\ndata: {"cursor":"8124.60","type":"task.completed", …}\n\n'


# At level debug it would log every chunk of every stream.
logging.getLogger("sse_starlette").setLevel(logging.INFO)


From = Annotated[
    str | None,
    Query(
        max_length=CURSOR_LENGTH,
        description="Where to continue: the cursor of a snapshot, or an event's id.",
        examples=["0.55"],
    ),
]
LastEventId = Annotated[
    str | None,
    Header(
        max_length=CURSOR_LENGTH, description="The same, as browsers send it when they reconnect; it takes precedence."
    ),
]


def routers(context: Context, _engine: Engine) -> list[APIRouter]:
    """Return the routes of this process."""
    limits = StreamLimits(context.settings.streams_per_user, context.settings.streams)
    streams = Streams(context.database, context.get(Feed), context.clock, limits)
    return [build_routes(streams, context.event_types)]


def build_routes(streams: Streams, types: Sequence[str]) -> APIRouter:
    """Return the route of the stream of events of these types."""
    router = APIRouter(prefix="/v1", tags=["live"])
    known = (*patterns_of(types), "*")
    description = f"Only these types, comma-separated; `task.*` is all that begin so. Types: {', '.join(known)}."

    def check(types: str) -> str:
        return ",".join(check_pattern(one, known) for one in types.split(","))

    Types = Annotated[  # noqa: N806 - a type
        str | None,
        Query(max_length=TYPES_LENGTH, description=description, examples=["task.*,asset.stored"]),
        AfterValidator(check),
    ]

    @router.get(
        "/events",
        summary="What happens, as it happens",
        response_class=Response,
        responses={
            200: {
                "description": "Server-sent events, until the client or the server ends them",
                "content": {"text/event-stream": {"example": EXAMPLE, "schema": {}}},
            },
            **problems(*CALLER, "CURSOR_INVALID", "REQUEST_INVALID", "STREAMS_TOO_MANY"),
        },
    )
    async def follow(
        request: Request,
        caller: CurrentCaller,
        cursor: From = None,
        last_event_id: LastEventId = None,
        types: Types = None,
    ) -> Response:
        """Send your events, each once and in order, from a cursor or from now. Scope `read`."""
        caller.require("read")
        word = last_event_id or cursor
        start = None if word is None else read_cursor(word)
        patterns = types.split(",") if types else ()
        stream = await streams.open(caller.user_id, start, patterns, _still_valid(request, caller))
        return EventStreamResponse(stream)

    return router


def _still_valid(request: Request, caller: Caller) -> Callable[[], Awaitable[bool]]:
    """Return a check that the caller who opened the stream may still read it."""
    accounts: Authenticator = request.app.state.accounts
    headers = dict(request.headers)

    async def still_valid() -> bool:
        try:
            found = await accounts.identify(headers)
        except (Unauthorized, Forbidden):
            return False
        except LongtakeError:
            # The check cannot be made now, which is no reason to end the stream.
            return True
        return found.user_id == caller.user_id and "read" in found.scopes

    return still_valid


class EventStreamResponse(EventSourceResponse):
    """Sends a stream as fast as the client reads it, and closes it in every case."""

    def __init__(self, stream: Stream) -> None:
        # No pings: the stream sends its own heartbeats, which carry its cursor.
        super().__init__(stream.chunks(), ping=0, client_close_handler_callable=self._client_left)
        self._stream = stream

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        transport = (scope.get("extensions") or {}).get(TRANSPORT)
        if transport is not None:
            self._stream.subscriber.hang_up = transport.abort
            _limit_unacknowledged(transport)
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._stream.close()

    async def _client_left(self, _message: Message) -> None:
        self._stream.subscriber.end(EndReason.CLIENT_GONE)


def _limit_unacknowledged(transport: Any) -> None:
    """Let the operating system end a connection whose data is not acknowledged, where it can."""
    connection = transport.get_extra_info("socket")
    option = getattr(socket, "TCP_USER_TIMEOUT", None)
    if connection is not None and option is not None:
        with contextlib.suppress(OSError):
            connection.setsockopt(socket.IPPROTO_TCP, option, VANISHED_SECONDS * 1000)
