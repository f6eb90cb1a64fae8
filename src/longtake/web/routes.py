"""The routes: two for machines that watch over the process, one for operators."""

import secrets
from importlib.metadata import version
from typing import Any

import orjson
from fastapi import APIRouter, Request, Response

from longtake.engine.engine import Engine
from longtake.operator import perform
from longtake.web.problems import HTTP_PROBLEMS, HttpProblem, problem
from longtake.web.readiness import OK, Readiness

NOTHING_TO_CHECK = "not in this process"


def build_routes(engine: Engine, readiness: Readiness, token: str) -> APIRouter:
    """Return all routes."""
    router = APIRouter()

    @router.get("/healthz", tags=["process"])
    async def healthz() -> dict[str, str]:
        """The process is alive. Says nothing about the database: restarting would not help that."""
        return {"status": "alive", "version": version("longtake")}

    @router.get("/readyz", tags=["process"])
    async def readyz() -> Response:
        """The database answers, its schema is the one this program needs, and the worker runs; 503 says what not."""
        checks = await readiness.checks()
        wrong = [f"{name}: {found}" for name, found in checks.items() if found not in {OK, NOTHING_TO_CHECK}]
        if wrong:
            status, title = HTTP_PROBLEMS["NOT_READY"]
            return problem(status, title, "NOT_READY", f"Not ready: {'; '.join(wrong)}.", checks=checks)
        return _json({"status": "ready", "checks": checks})

    @router.post("/v1/operator/{action}", tags=["operator"])
    async def operate(action: str, request: Request) -> Response:
        """Perform an operator's action; the body is a JSON object with its arguments. Needs the bearer token."""
        _require_token(request, token)
        return _json(await perform(engine, action, await _arguments(request)))

    return router


def _require_token(request: Request, token: str) -> None:
    scheme, _space, given = request.headers.get("authorization", "").partition(" ")
    # Compared even if the scheme is wrong, so that the time taken says nothing.
    same = secrets.compare_digest(given.strip().encode(), token.encode())
    if not same or scheme.lower() != "bearer":
        raise HttpProblem(
            "UNAUTHORIZED",
            "This needs the server's token.",
            "Send `Authorization: Bearer …` with the token from server.json in the data folder.",
            headers={"WWW-Authenticate": "Bearer"},
        )


async def _arguments(request: Request) -> dict[str, Any]:
    body = await request.body()
    try:
        arguments = orjson.loads(body) if body.strip() else {}
    except orjson.JSONDecodeError as error:
        raise HttpProblem("REQUEST_INVALID", f"The body is not JSON: {error}.") from None
    if not isinstance(arguments, dict):
        raise HttpProblem("REQUEST_INVALID", "The body must be a JSON object with the action's arguments.")
    return arguments


def _json(content: Any) -> Response:
    return Response(orjson.dumps(content), media_type="application/json")
