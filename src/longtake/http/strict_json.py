"""Strict JSON bodies: no duplicate names, no lone surrogates in names, no NaN or Infinity.

``APIRouter(route_class=StrictRoute)`` reads the bodies of its routes this way and refuses others with JSON_INVALID.
"""

import json
from collections.abc import Callable, Coroutine
from typing import Any, NoReturn

from fastapi import Request, Response
from fastapi.routing import APIRoute

_SHOWN = 80


class AmbiguousJson(ValueError):
    """The body could mean different things to different parsers. The message continues `The body …`."""


class StrictRoute(APIRoute):
    """A route that reads its body strictly."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """Return a handler that gives FastAPI a request with a strict `json()`."""
        handle = super().get_route_handler()

        async def handler(request: Request) -> Response:
            return await handle(_StrictRequest(request.scope, request.receive))

        return handler


class _StrictRequest(Request):
    async def json(self) -> Any:
        return json.loads(await self.body(), object_pairs_hook=_object, parse_constant=_refuse)


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _value in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise AmbiguousJson(f"has the name {twice[:_SHOWN]!r} twice")
    if any("\ud800" <= one <= "\udfff" for name in found for one in name):
        raise AmbiguousJson("has a name with half a character")
    return found


def _refuse(word: str) -> NoReturn:
    raise AmbiguousJson(f"has {word}, which is not a number in JSON")
