"""Errors over HTTP: RFC 9457 problems with a stable `code`, a sentence, what to do next, and the request's id."""

import math
from typing import Any

import orjson
import structlog
from fastapi import FastAPI, Request, Response
from fastapi.routing import APIRoute
from starlette.exceptions import HTTPException
from starlette.routing import Match

from longtake.errors import (
    AddressRefused,
    AnswerTimedOut,
    AssetGone,
    DatabaseError,
    DatabaseUnavailable,
    DecodersBusy,
    Forbidden,
    GenerationError,
    IdempotencyKeyInUse,
    ImportFileInvalid,
    InsufficientCredits,
    InternalSecretRefused,
    InvalidActionArgument,
    InvalidAmount,
    InvalidCursor,
    InvalidDefinition,
    InvalidJob,
    InvalidText,
    InvalidTitle,
    KeySetUnavailable,
    LeaseLost,
    LinkInvalid,
    LongtakeError,
    MediaRefused,
    NetError,
    NotFound,
    ObjectMissing,
    ObjectTooLarge,
    PosterPathInvalid,
    ProviderBusy,
    ProviderError,
    ProviderNotConfigured,
    ProviderQuotaSpent,
    ProviderRefused,
    ProviderTaskNotFound,
    ProviderUnavailable,
    PublicAddressMissing,
    RateLimited,
    ResultNotCopied,
    RightsMissing,
    RoleTooPowerful,
    StateConflict,
    StorageError,
    StorageUnavailable,
    TooManyImports,
    TooManyProcessings,
    TooManyStreams,
    TooManyTasks,
    TransactionEnded,
    Unauthorized,
    UnknownAction,
)
from longtake.http.strict_json import AmbiguousJson
from longtake.logs import log_context

log = structlog.get_logger(__name__)

RETRY_AFTER_SECONDS = 5

#: Status of each error; the nearest class in its family tree counts.
STATUSES: dict[type[LongtakeError], int] = {
    UnknownAction: 404,
    InvalidActionArgument: 422,
    InvalidJob: 422,
    InvalidText: 422,
    InvalidTitle: 422,
    PosterPathInvalid: 422,
    InvalidAmount: 422,
    InvalidCursor: 422,
    TooManyStreams: 429,
    TooManyProcessings: 429,
    InternalSecretRefused: 401,
    InsufficientCredits: 402,
    Unauthorized: 401,
    Forbidden: 403,
    RateLimited: 429,
    KeySetUnavailable: 503,
    InvalidDefinition: 422,
    NotFound: 404,
    StateConflict: 409,
    LeaseLost: 409,
    DatabaseError: 503,
    AddressRefused: 422,
    AnswerTimedOut: 504,
    NetError: 502,
    ProviderBusy: 503,
    ProviderQuotaSpent: 503,
    ProviderUnavailable: 503,
    ProviderRefused: 422,
    ProviderTaskNotFound: 404,
    ProviderError: 502,
    IdempotencyKeyInUse: 409,
    ProviderNotConfigured: 503,
    PublicAddressMissing: 503,
    TooManyTasks: 429,
    GenerationError: 422,
    StorageUnavailable: 503,
    ObjectMissing: 404,
    ObjectTooLarge: 413,
    StorageError: 500,
    MediaRefused: 422,
    DecodersBusy: 503,
    ResultNotCopied: 502,
    AssetGone: 410,
    TooManyImports: 429,
    ImportFileInvalid: 422,
    LinkInvalid: 403,
    RightsMissing: 500,
    RoleTooPowerful: 500,
    TransactionEnded: 500,
    LongtakeError: 500,
}

#: What only HTTP can go wrong: code, status and title.
HTTP_PROBLEMS = {
    "JSON_INVALID": (400, "Bad Request"),
    "ROUTE_UNKNOWN": (404, "Not Found"),
    "METHOD_NOT_ALLOWED": (405, "Method Not Allowed"),
    "BODY_TOO_LARGE": (413, "Content Too Large"),
    "CONTENT_TYPE_UNSUPPORTED": (415, "Unsupported Media Type"),
    "HOST_UNKNOWN": (421, "Misdirected Request"),
    "REQUEST_INVALID": (422, "Unprocessable Content"),
    "INTERNAL_ERROR": (500, "Internal Server Error"),
    "NOT_READY": (503, "Service Unavailable"),
}
TITLES = {
    401: "Unauthorized",
    402: "Payment Required",
    403: "Forbidden",
    404: "Not Found",
    409: "Conflict",
    410: "Gone",
    413: "Content Too Large",
    422: "Unprocessable Content",
    429: "Too Many Requests",
    500: "Internal Server Error",
    502: "Bad Gateway",
    503: "Service Unavailable",
    504: "Gateway Timeout",
}


class HttpProblem(Exception):
    """Something only HTTP can get wrong; `code` is one of HTTP_PROBLEMS."""

    def __init__(self, code: str, detail: str, hint: str = "", headers: dict[str, str] | None = None) -> None:
        super().__init__(detail)
        self.code = code
        self.detail = detail
        self.hint = hint
        self.headers = headers

    def response(self) -> Response:
        """The problem as it is sent."""
        status, title = HTTP_PROBLEMS[self.code]
        return problem(status, title, self.code, self.detail, self.hint, headers=self.headers)


def problem(
    status: int,
    title: str,
    code: str,
    detail: str,
    hint: str = "",
    *,
    headers: dict[str, str] | None = None,
    **members: Any,
) -> Response:
    """Build the response; `members` are further facts about this problem."""
    body = {"type": "about:blank", "title": title, "status": status, "code": code, "detail": detail}
    if hint:
        body["hint"] = hint
    body |= {"request_id": log_context.get().get("request_id", ""), **members}
    return Response(orjson.dumps(body), status, headers, media_type="application/problem+json")


def error_response(error: LongtakeError) -> Response:
    """Answer with one of Longtake's own errors."""
    status = next(STATUSES[kind] for kind in type(error).__mro__ if kind in STATUSES)
    detail = told(error)
    if detail != error.message:
        log.warning("the database refused", action="request", code=error.code, error=error.message)
    return problem(status, TITLES[status], error.code, detail, error.hint, headers=_headers(error), **error.facts)


def told(error: LongtakeError) -> str:
    """Return what callers hear of an error.

    What a database's driver said stands in brackets after our sentence. It may name hosts, roles and files: that is
    for the log of those who run this server.
    """
    sentence, bracket, _driver = error.message.partition(". (")
    return f"{sentence}." if bracket and isinstance(error, DatabaseError) else error.message


def _headers(error: LongtakeError) -> dict[str, str]:
    if isinstance(error, Unauthorized):
        return {"WWW-Authenticate": "Bearer"}
    usual = RETRY_AFTER_SECONDS if isinstance(error, DatabaseUnavailable | StorageUnavailable) else None
    wait = error.facts.get("retry_after", usual)
    return {} if wait is None else {"Retry-After": str(math.ceil(wait))}


def install_handlers(app: FastAPI) -> None:
    """Turn every error that leaves a route into a problem."""

    async def ours(_request: Request, error: Exception) -> Response:
        assert isinstance(error, LongtakeError)  # noqa: S101 - registered for nothing else
        return error_response(error)

    async def of_http(_request: Request, error: Exception) -> Response:
        assert isinstance(error, HttpProblem)  # noqa: S101 - registered for nothing else
        return error.response()

    async def of_routing(request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)  # noqa: S101 - registered for nothing else
        return _routing_problem(request, error).response()

    async def unexpected(_request: Request, _error: Exception) -> Response:
        return unexpected_problem().response()

    app.add_exception_handler(LongtakeError, ours)
    app.add_exception_handler(HttpProblem, of_http)
    app.add_exception_handler(HTTPException, of_routing)
    app.add_exception_handler(Exception, unexpected)


def unexpected_problem() -> HttpProblem:
    """What a caller hears of a bug: nothing but where to look."""
    return HttpProblem(
        "INTERNAL_ERROR",
        "Something went wrong that should not have.",
        "Search the server's log for the request_id.",
    )


def _routing_problem(request: Request, error: HTTPException) -> HttpProblem:
    path = request.url.path[:200]
    if isinstance(error.__cause__, HttpProblem):
        # Raised while the body was read; FastAPI wraps whatever happens there.
        return error.__cause__
    if isinstance(error.__cause__, AmbiguousJson):
        return HttpProblem("JSON_INVALID", f"The body {error.__cause__}.")
    if error.status_code == HTTP_PROBLEMS["JSON_INVALID"][0]:
        return HttpProblem("JSON_INVALID", "The body cannot be read.")
    if error.status_code == HTTP_PROBLEMS["METHOD_NOT_ALLOWED"][0]:
        return _not_allowed(request, _allowed(request))
    if error.status_code == HTTP_PROBLEMS["ROUTE_UNKNOWN"][0]:
        return HttpProblem("ROUTE_UNKNOWN", f"There is nothing at {path}.", "/openapi.json lists what there is.")
    log.error("unforeseen HTTP error", status=error.status_code, error=str(error.detail))
    return unexpected_problem()


def literal_path_problem(request: Request) -> HttpProblem | None:
    """Return the problem of a request to `/v1/tasks/pending` with a method that only `/v1/tasks/{task_id}` takes."""
    allowed = _methods_of_path(request)
    return _not_allowed(request, allowed) if allowed and request.method not in allowed else None


def _not_allowed(request: Request, allowed: list[str]) -> HttpProblem:
    sentence = f"{request.url.path[:200]} does not take {request.method}."
    return HttpProblem("METHOD_NOT_ALLOWED", sentence, headers={"Allow": ", ".join(allowed)})


def _methods_of_path(request: Request) -> list[str]:
    """Return the methods of routes whose path is this one letter by letter."""
    same = [route for route in request.app.routes if isinstance(route, APIRoute) and route.path == request.url.path]
    return sorted({method for route in same if route.include_in_schema for method in route.methods or ()})


def _allowed(request: Request) -> list[str]:
    """Return all methods of this path: routes know only their own."""
    methods = ("DELETE", "GET", "HEAD", "PATCH", "POST", "PUT")
    # `/v1/tasks/pending` is a path of its own, though it fits where an id could stand.
    if literal := _methods_of_path(request):
        return literal
    routes = request.app.routes
    return [
        method
        for method in methods
        if any(route.matches({**request.scope, "method": method})[0] is Match.FULL for route in routes)
    ]
