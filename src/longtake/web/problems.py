"""Errors over HTTP: RFC 9457 problems with a stable `code`, a sentence, what to do next, and the request's id."""

from typing import Any

import orjson
import structlog
from fastapi import FastAPI, Request, Response
from starlette.exceptions import HTTPException

from longtake.errors import (
    DatabaseError,
    DatabaseUnavailable,
    InvalidActionArgument,
    InvalidDefinition,
    InvalidJob,
    LeaseLost,
    LongtakeError,
    NotFound,
    RightsMissing,
    StateConflict,
    TransactionEnded,
    UnknownAction,
)
from longtake.logs import log_context

log = structlog.get_logger(__name__)

RETRY_AFTER_SECONDS = 5

#: Status of each error; the nearest class in its family tree counts.
STATUSES: dict[type[LongtakeError], int] = {
    UnknownAction: 404,
    InvalidActionArgument: 422,
    InvalidJob: 422,
    InvalidDefinition: 422,
    NotFound: 404,
    StateConflict: 409,
    LeaseLost: 409,
    DatabaseError: 503,
    RightsMissing: 500,
    TransactionEnded: 500,
    LongtakeError: 500,
}

#: What only HTTP can go wrong: code, status and title.
HTTP_PROBLEMS = {
    "REQUEST_INVALID": (400, "Bad Request"),
    "UNAUTHORIZED": (401, "Unauthorized"),
    "ROUTE_UNKNOWN": (404, "Not Found"),
    "METHOD_NOT_ALLOWED": (405, "Method Not Allowed"),
    "BODY_TOO_LARGE": (413, "Content Too Large"),
    "HOST_UNKNOWN": (421, "Misdirected Request"),
    "INTERNAL_ERROR": (500, "Internal Server Error"),
    "NOT_READY": (503, "Service Unavailable"),
}
TITLES = {
    404: "Not Found",
    409: "Conflict",
    422: "Unprocessable Content",
    500: "Internal Server Error",
    503: "Service Unavailable",
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
    headers = {"Retry-After": str(RETRY_AFTER_SECONDS)} if isinstance(error, DatabaseUnavailable) else None
    return problem(status, TITLES[status], error.code, error.message, error.hint, headers=headers, **error.facts)


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
    if error.status_code == HTTP_PROBLEMS["METHOD_NOT_ALLOWED"][0]:
        headers = dict(error.headers or {})
        return HttpProblem("METHOD_NOT_ALLOWED", f"{path} does not take {request.method}.", headers=headers)
    if error.status_code == HTTP_PROBLEMS["ROUTE_UNKNOWN"][0]:
        return HttpProblem("ROUTE_UNKNOWN", f"There is nothing at {path}.", "/openapi.json lists what there is.")
    log.error("unforeseen HTTP error", status=error.status_code, error=str(error.detail))
    return unexpected_problem()
