"""The web application: the server's own routes, for monitoring and for operators, and those of capabilities."""

import asyncio
import secrets
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from importlib.metadata import version
from typing import Annotated, Any, Literal

import orjson
from fastapi import APIRouter, FastAPI, Path, Request, Response
from pydantic import BaseModel, ConfigDict, Field
from starlette.types import ASGIApp

from longtake.actions import Actions
from longtake.db import Database
from longtake.db.errors import SchemaMismatch
from longtake.db.migrate import compare_schema, read_applied
from longtake.engine.engine import Engine
from longtake.errors import LongtakeError
from longtake.http.problem_schema import CALLER, install_openapi, problems
from longtake.http.problems import HTTP_PROBLEMS, HttpProblem, install_handlers, problem, public_message
from longtake.server.middleware import Frame
from longtake.services.accounts.authenticator import Authenticator
from longtake.services.accounts.current_caller import ADMIN, OPERATE, Caller, Credentials, current_caller
from longtake.services.accounts.errors import Unauthorized

UPLOADS = ("POST", "/v1/references")
#: What a form adds around a file.
FORM_BYTES = 65_536
ANSWER_SECONDS = 2.0
OK = "ok"
UNKNOWN = "unknown while the database does not answer"
NOTHING_TO_CHECK = "not in this process"

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
_JSON = "application/json"
#: The arguments are read by the action itself: the same words for them on the command line.
ACTION_BODY: dict[str, Any] = {
    "requestBody": {
        "content": {_JSON: {"schema": {"type": "object"}, "example": {"state": "failed", "limit": 5}}},
        "description": "The action's arguments; nothing for none.",
    }
}
ACTION_ANSWER: dict[str, Any] = {
    "description": "What the action found or did.",
    "content": {_JSON: {"schema": {"type": "object"}, "example": {"jobs": []}}},
}


class Alive(BaseModel):
    """The process runs."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"status": "alive", "version": "0.1.0"}]})

    status: Literal["alive"]
    version: str


class Ready(BaseModel):
    """The process can do its work; `checks` lists the result of each check."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [{"status": "ready", "checks": {"database": "ok", "schema": "ok", "worker": "ok"}}]
        }
    )

    status: Literal["ready"]
    checks: dict[str, str] = Field(description="`ok` for each part, or why there is nothing to check.")


class Readiness:
    """Checks the database, its schema and the worker. Simultaneous probes share one check."""

    def __init__(self, database: Database, locations: Sequence[str], worker_state: Callable[[], str]) -> None:
        self._database = database
        self._locations = locations
        self._worker_state = worker_state
        self._look: asyncio.Task[tuple[str, str]] | None = None

    async def checks(self) -> dict[str, str]:
        """Return `ok` for each part, or what is wrong with it."""
        database, schema = await self._ask()
        return {"database": database, "schema": schema, "worker": self._worker_state()}

    async def _ask(self) -> tuple[str, str]:
        """Return how the database and its schema are.

        A look that got no answer in time goes on by itself: a second one beside it would only take another
        connection from the work.
        """
        if self._look is None or self._look.done():
            self._look = asyncio.create_task(self._check_schema())
        try:
            async with asyncio.timeout(ANSWER_SECONDS):
                return await asyncio.shield(self._look)
        except TimeoutError:
            return f"the database did not answer within {ANSWER_SECONDS:g} s", UNKNOWN

    async def _check_schema(self) -> tuple[str, str]:
        try:
            status = compare_schema(await self._database.read(read_applied), self._locations)
        except SchemaMismatch as error:
            return OK, error.message
        except LongtakeError as error:
            return public_message(error), UNKNOWN
        return OK, OK if status.up_to_date else str(status)


@dataclass(frozen=True)
class Serving:
    """What the routes need. `token` is the one in server.json, `capabilities` the routes of what is built on top."""

    engine: Engine
    readiness: Readiness
    token: str
    accounts: Authenticator
    actions: Actions
    capabilities: Sequence[APIRouter] = field(default=())


def create_api(serving: Serving) -> FastAPI:
    """Return the routes with their error handling. The pages that FastAPI offers load scripts from elsewhere: off."""
    app = FastAPI(title="Longtake", version=version("longtake"), docs_url=None, redoc_url=None)
    app.state.accounts = serving.accounts
    app.state.before_body = current_caller
    own = _own_routes(serving.engine, serving.readiness, serving.token, serving.actions)
    for router in (own, *serving.capabilities):
        # Not included: that would build every route a second time, and match every request twice.
        app.router.routes.extend(router.routes)
    install_handlers(app)
    install_openapi(app)
    return app


def create_web(
    serving: Serving, *, allowed_hosts: Iterable[str], upload_bytes: int, allowed_origins: Iterable[str] = ()
) -> ASGIApp:
    """Return what the HTTP server runs: every request passes the frame first."""
    return Frame(create_api(serving), allowed_hosts, {UPLOADS: upload_bytes + FORM_BYTES}, allowed_origins)


def _own_routes(engine: Engine, readiness: Readiness, token: str, actions: Actions) -> APIRouter:
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
            caller.require(OPERATE)
            if (known := actions.get(action)) is not None and known.for_admins:
                caller.require(ADMIN)
        by = None if caller is None else caller.user_id
        return _json(await actions.perform(engine, action, await _arguments(request), by))

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
    return Response(orjson.dumps(content), media_type=_JSON)
