"""The routes: two for monitoring the process, one for operators."""

import secrets
from importlib.metadata import version
from typing import Annotated, Any

import orjson
from fastapi import APIRouter, Path, Request, Response

from longtake.engine.engine import Engine
from longtake.errors import Unauthorized
from longtake.http.problem_schema import CALLER, problems
from longtake.http.problems import HTTP_PROBLEMS, HttpProblem, problem
from longtake.server.operator import ACTIONS, perform
from longtake.server.readiness import OK, Readiness
from longtake.server.schemas import ACTION_ANSWER, ACTION_BODY, Alive, Ready
from longtake.services.accounts.current_caller import ADMIN, OPERATE, Caller, Credentials, current_caller
from longtake.services.vault.vault import Vault

_REFUSED = (
    "JSON_INVALID",
    "BODY_TOO_LARGE",
    "ACTION_UNKNOWN",
    "ACTION_ARGUMENT_INVALID",
    "DEFINITION_INVALID",
    "AMOUNT_INVALID",
    "INSUFFICIENT_CREDITS",
    "TEXT_INVALID",
    "NOT_FOUND",
    "STATE_CONFLICT",
)
NOTHING_TO_CHECK = "not in this process"


def build_routes(engine: Engine, readiness: Readiness, token: str, vault: Vault) -> APIRouter:
    """Return all routes."""
    router = APIRouter()

    @router.get("/healthz", tags=["process"], summary="Alive")
    async def healthz() -> Alive:
        """The process is alive. This does not check the database, which a restart cannot fix."""
        return Alive(status="alive", version=version("longtake"))

    ready: dict[int | str, dict[str, Any]] = {200: {"model": Ready}}

    @router.get("/readyz", tags=["process"], summary="Ready", responses=ready | problems("NOT_READY"))
    async def readyz() -> Response:
        """The database answers, its schema matches this program, and the worker runs; 503 says which check fails."""
        checks = await readiness.checks()
        wrong = [f"{name}: {found}" for name, found in checks.items() if found not in {OK, NOTHING_TO_CHECK}]
        if wrong:
            return problem(HTTP_PROBLEMS["NOT_READY"], "NOT_READY", f"Not ready: {'; '.join(wrong)}.", checks=checks)
        return _json({"status": "ready", "checks": checks})

    @router.post(
        "/v1/operator/{action}",
        tags=["operator"],
        summary="Perform an operator's action",
        responses={200: ACTION_ANSWER, **problems(*CALLER, *_REFUSED)},
        openapi_extra=ACTION_BODY,
    )
    async def operate(
        action: Annotated[str, Path(description="What to do.", examples=["jobs.list"])],
        request: Request,
        _shown: Credentials,
    ) -> Response:
        """Perform an operator's action. The body is a JSON object with its arguments.

        Needs the server's own token, or a token or key with the scope `operate`; some actions need `admin`.
        """
        caller = None if _is_server_token(request, token) else await _operator(request, _shown)
        if caller is not None:
            _require_scope(caller, action)
        by = None if caller is None else caller.user_id
        return _json(await perform(engine, action, await _arguments(request), {"vault": vault}, by))

    return router


def _is_server_token(request: Request, token: str) -> bool:
    scheme, _space, given = request.headers.get("authorization", "").partition(" ")
    # Compared even if the scheme is wrong, so that the time taken says nothing.
    same = secrets.compare_digest(given.strip().encode(), token.encode())
    return same and scheme.lower() == "bearer"


async def _operator(request: Request, credentials: Credentials) -> Caller:
    try:
        return await current_caller(request, credentials)
    except Unauthorized as error:
        hint = "Send `Authorization: Bearer …` with the token from server.json in the data folder, or one of your own."
        raise Unauthorized(error.message, hint=hint) from None


def _require_scope(caller: Caller, name: str) -> None:
    caller.require(OPERATE)
    action = ACTIONS.get(name)
    if action is not None and action.for_admins:
        caller.require(ADMIN)


async def _arguments(request: Request) -> dict[str, Any]:
    body = await request.body()
    try:
        arguments = orjson.loads(body) if body.strip() else {}
    except orjson.JSONDecodeError as error:
        raise HttpProblem("JSON_INVALID", f"The body is not JSON: {error}.") from None
    if not isinstance(arguments, dict):
        raise HttpProblem("JSON_INVALID", "The body must be a JSON object with the action's arguments.")
    return arguments


def _json(content: Any) -> Response:
    return Response(orjson.dumps(content), media_type="application/json")
