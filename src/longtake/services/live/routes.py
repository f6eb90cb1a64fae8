"""The stream of events over HTTP."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from fastapi import APIRouter, Depends, Header, Query, Request, Response
from pydantic import AfterValidator

from longtake.engine.event_types import TYPES, check_pattern, patterns_of
from longtake.errors import Forbidden, LongtakeError, Unauthorized
from longtake.http.problem_schema import CALLER, problems
from longtake.services.accounts.callers import Caller, current_caller
from longtake.services.live.cursors import read_cursor
from longtake.services.live.response import EventStreamResponse
from longtake.services.live.subscriber import Wanted

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from longtake.services.accounts.authenticator import Authenticator
    from longtake.services.live.streams import Streams

CURSOR_LENGTH = 100
TYPES_LENGTH = 500
PATTERNS = (*patterns_of(TYPES), "*")
EXAMPLE = 'id: 8124.60\nevent: task.completed\ndata: {"cursor":"8124.60","type":"task.completed", …}\n\n'


def _check_types(types: str) -> str:
    return ",".join(check_pattern(one, PATTERNS) for one in types.split(","))


Who = Annotated[Caller, Depends(current_caller)]
From = Annotated[
    str | None,
    Query(max_length=CURSOR_LENGTH, description="Where to go on: of a snapshot, or an event's id.", examples=["0.55"]),
]
LastEventId = Annotated[
    str | None,
    Header(max_length=CURSOR_LENGTH, description="The same, as browsers send it when they connect again; it counts."),
]
Types = Annotated[
    str | None,
    Query(
        max_length=TYPES_LENGTH,
        description=f"Only these types, with commas; `task.*` is all that begin so. There are {', '.join(PATTERNS)}.",
        examples=["task.*,asset.stored"],
    ),
    AfterValidator(_check_types),
]


def build_routes(streams: Streams) -> APIRouter:
    """Return the route of the stream."""
    router = APIRouter(prefix="/v1", tags=["live"])

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
        request: Request, caller: Who, cursor: From = None, last_event_id: LastEventId = None, types: Types = None
    ) -> Response:
        """Send my events: from a cursor on, each once and in order, or from now on. Scope `read`."""
        caller.require("read")
        word = last_event_id or cursor
        start = None if word is None else read_cursor(word)
        wanted = Wanted(types.split(",") if types else ())
        return EventStreamResponse(await streams.open(caller.user_id, start, wanted, _still_valid(request, caller)))

    return router


def _still_valid(request: Request, caller: Caller) -> Callable[[], Awaitable[bool]]:
    """Return the question whether who opened the stream may still read it."""
    accounts: Authenticator = request.app.state.accounts
    headers = dict(request.headers)

    async def still_valid() -> bool:
        try:
            found = await accounts.identify(headers)
        except (Unauthorized, Forbidden):
            return False
        except LongtakeError:
            # Nobody can be asked now, which is no reason to send anyone away.
            return True
        return found.user_id == caller.user_id and "read" in found.scopes

    return still_valid
