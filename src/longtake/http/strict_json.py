"""Strict JSON bodies: no duplicate names, no lone surrogates in names, no NaN or Infinity.

``APIRouter(route_class=StrictRoute)`` reads the bodies of its routes this way and refuses others with JSON_INVALID.
``json_response`` answers in JSON.
"""

import json
from collections.abc import Callable, Coroutine
from typing import Any, NoReturn

import orjson
from fastapi import Request, Response
from fastapi.dependencies.models import Dependant
from fastapi.routing import APIRoute

_SHOWN = 80


class AmbiguousJson(ValueError):
    """The body could mean different things to different parsers. The message continues `The body …`."""


class StrictRoute(APIRoute):
    """A route that reads its body strictly, and only after its caller is known.

    FastAPI reads a body before it resolves dependencies, so anyone could make it parse a megabyte. The dependency in
    ``app.state.before_body`` is resolved first, on the routes that depend on it; it keeps its result for FastAPI.
    """

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """Return a handler that gives FastAPI a request with a strict `json()`."""
        handle = super().get_route_handler()

        async def handler(request: Request) -> Response:
            before_body = getattr(request.app.state, "before_body", None)
            if before_body is not None and _depends_on(self.dependant, before_body):
                await before_body(request)
            return await handle(_StrictRequest(request.scope, request.receive))

        return handler


def _depends_on(dependant: Dependant, call: Callable[..., Any]) -> bool:
    return any(one.call is call or _depends_on(one, call) for one in dependant.dependencies)


class _StrictRequest(Request):
    async def json(self) -> Any:
        return json.loads(await self.body(), object_pairs_hook=_object, parse_constant=_refuse)


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, value in pairs:
        if name in found:
            raise AmbiguousJson(f"has the name {name[:_SHOWN]!r} twice")
        found[name] = value
    if any("\ud800" <= one <= "\udfff" for name in found for one in name):
        raise AmbiguousJson("has a name with half a character")
    return found


def _refuse(word: str) -> NoReturn:
    raise AmbiguousJson(f"has {word}, which is not a number in JSON")


def json_response(content: Any, status: int = 200, headers: dict[str, str] | None = None) -> Response:
    """Return the content as it is, not checked against a schema again."""
    return Response(orjson.dumps(content), status, headers, media_type="application/json")
