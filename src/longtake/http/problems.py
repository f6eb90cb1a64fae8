"""Errors over HTTP: RFC 9457 problems with a stable `code`, a sentence, a hint, and the request's id.

Classes of errors, with their status, are in `errors.py` of the package that raises them; here are those of HTTP itself.
"""

import math
from collections.abc import Callable
from http import HTTPStatus
from typing import Any, TypeVar

import orjson
import structlog
from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute
from starlette.exceptions import HTTPException
from starlette.routing import Match

from longtake.adapters.storage.errors import StorageUnavailable
from longtake.db.errors import DatabaseError, DatabaseUnavailable
from longtake.errors import LongtakeError, errors_by_code
from longtake.http.strict_json import AmbiguousJson
from longtake.logs import request_id
from longtake.validation import field_message

log = structlog.get_logger(__name__)

E = TypeVar("E", bound=Exception)

RETRY_AFTER_SECONDS = 5

#: Problems that only occur over HTTP: the status of each code.
HTTP_PROBLEMS = {
    "JSON_INVALID": 400,
    "ROUTE_UNKNOWN": 404,
    "METHOD_NOT_ALLOWED": 405,
    "BODY_TOO_LARGE": 413,
    "CONTENT_TYPE_UNSUPPORTED": 415,
    "HOST_UNKNOWN": 421,
    "REQUEST_INVALID": 422,
    "INTERNAL_ERROR": 500,
    "NOT_READY": 503,
}
#: The titles of RFC 9110; older versions of Python have others for two of them.
TITLES = {status.value: status.phrase for status in HTTPStatus} | {
    413: "Content Too Large",
    422: "Unprocessable Content",
}


class HttpProblem(Exception):
    """A problem that only occurs over HTTP; `code` is one of HTTP_PROBLEMS."""

    def __init__(self, code: str, detail: str, hint: str = "", headers: dict[str, str] | None = None) -> None:
        super().__init__(detail)
        self.code = code
        self.detail = detail
        self.hint = hint
        self.headers = headers

    def response(self) -> Response:
        return problem(HTTP_PROBLEMS[self.code], self.code, self.detail, self.hint, headers=self.headers)


def problem(
    status: int,
    code: str,
    detail: str,
    hint: str = "",
    *,
    headers: dict[str, str] | None = None,
    **members: Any,
) -> Response:
    """Return a problem response; `members` are additional members of the problem."""
    body = {"type": "about:blank", "title": TITLES[status], "status": status, "code": code, "detail": detail}
    if hint:
        body["hint"] = hint
    body |= {"request_id": request_id(), **members}
    return Response(orjson.dumps(body), status, headers, media_type="application/problem+json")


def status_of_code(code: str) -> int:
    """Return the HTTP status of the problem with this code."""
    return HTTP_PROBLEMS[code] if code in HTTP_PROBLEMS else errors_by_code()[code].http_status


def error_response(error: LongtakeError) -> Response:
    """Return the problem response of an error."""
    detail = public_message(error)
    if detail != error.message:
        log.warning("the database refused", action="request", code=error.code, error=error.message)
    return problem(error.http_status, error.code, detail, error.hint, headers=_headers(error), **error.facts)


def public_message(error: LongtakeError) -> str:
    """Return the message of an error without what the database driver said.

    The driver's text follows our sentence in brackets. It may name hosts, roles and files, and belongs only in the log.
    """
    sentence, bracket, _driver = error.message.partition(". (")
    return f"{sentence}." if bracket and isinstance(error, DatabaseError) else error.message


def _headers(error: LongtakeError) -> dict[str, str]:
    if error.code == "UNAUTHORIZED":
        return {"WWW-Authenticate": "Bearer"}
    usual = RETRY_AFTER_SECONDS if isinstance(error, DatabaseUnavailable | StorageUnavailable) else None
    wait = error.facts.get("retry_after", usual)
    return {} if wait is None else {"Retry-After": str(math.ceil(wait))}


def install_handlers(app: FastAPI) -> None:
    """Turn every error that leaves a route into a problem response."""

    def answer(kind: type[E], respond: Callable[[Request, E], Response]) -> None:
        async def handler(request: Request, error: Any) -> Response:
            return respond(request, error)

        app.add_exception_handler(kind, handler)

    answer(LongtakeError, lambda _request, error: error_response(error))
    answer(HttpProblem, lambda _request, error: error.response())
    answer(HTTPException, lambda request, error: _routing_problem(request, error).response())
    answer(RequestValidationError, _invalid_request)
    answer(Exception, lambda _request, _error: unexpected_problem().response())


def _invalid_request(request: Request, error: RequestValidationError) -> Response:
    elsewhere = _literal_path_problem(request)
    return validation_response(error) if elsewhere is None else elsewhere.response()


def unexpected_problem() -> HttpProblem:
    """Return the problem for a bug: it reveals nothing but where to look."""
    return HttpProblem(
        "INTERNAL_ERROR",
        "Something went wrong that should not have.",
        "Search the server's log for the request_id.",
    )


def _routing_problem(request: Request, error: HTTPException) -> HttpProblem:
    path = request.url.path[:200]
    if isinstance(error.__cause__, HttpProblem):
        # Raised while the body was read; FastAPI wraps all errors there.
        return error.__cause__
    if isinstance(error.__cause__, AmbiguousJson):
        return HttpProblem("JSON_INVALID", f"The body {error.__cause__}.")
    if error.status_code == HTTP_PROBLEMS["JSON_INVALID"]:
        return HttpProblem("JSON_INVALID", "The body cannot be read.")
    if error.status_code == HTTP_PROBLEMS["METHOD_NOT_ALLOWED"]:
        return _not_allowed(request, _allowed(request))
    if error.status_code == HTTP_PROBLEMS["ROUTE_UNKNOWN"]:
        return HttpProblem("ROUTE_UNKNOWN", f"There is nothing at {path}.", "/openapi.json lists all routes.")
    log.error("unforeseen HTTP error", status=error.status_code, error=str(error.detail))
    return unexpected_problem()


def _literal_path_problem(request: Request) -> HttpProblem | None:
    """Return the problem of a request to `/v1/tasks/pending` with a method that only `/v1/tasks/{task_id}` allows."""
    allowed = _methods_of_path(request)
    return _not_allowed(request, allowed) if allowed and request.method not in allowed else None


def _not_allowed(request: Request, allowed: list[str]) -> HttpProblem:
    sentence = f"{request.url.path[:200]} does not take {request.method}."
    return HttpProblem("METHOD_NOT_ALLOWED", sentence, headers={"Allow": ", ".join(allowed)})


def _methods_of_path(request: Request) -> list[str]:
    """Return the methods of routes whose path is exactly this one."""
    same = [route for route in request.app.routes if isinstance(route, APIRoute) and route.path == request.url.path]
    return sorted({method for route in same if route.include_in_schema for method in route.methods or ()})


def _allowed(request: Request) -> list[str]:
    """Return all methods of this path; each route knows only its own."""
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


MOST_NAMED = 20
LONGEST_NAME = 80
_PLACES = {"body", "query", "path", "header", "cookie"}
#: A body that is JSON, but no object.
_NO_OBJECT = {"dict_type", "model_type", "model_attributes_type"}


def validation_response(error: RequestValidationError) -> Response:
    """Return the problem of a request that does not fit its route. It names fields, but never repeats their values."""
    found = error.errors()
    for details in found:
        if details["type"] == "json_invalid":
            reason = f"{details['ctx']['error']} at character {details['loc'][-1]}"
            return HttpProblem("JSON_INVALID", f"The body is not JSON: {reason}.").response()
    whole = [details for details in found if details["loc"] == ("body",)]
    if any(isinstance(details["input"], bytes) for details in whole):
        # FastAPI passes on the raw bytes when it does not read their Content-Type.
        return HttpProblem(
            "CONTENT_TYPE_UNSUPPORTED", "The body must be JSON.", "Send `Content-Type: application/json`."
        ).response()
    if any(details["type"] in _NO_OBJECT for details in whole):
        return HttpProblem("JSON_INVALID", "The body must be a JSON object.").response()
    named = [{"field": _field(details["loc"]), "message": field_message(details)} for details in found[:MOST_NAMED]]
    sentence = "; ".join(f"{one['field']} {one['message']}" for one in named)
    return problem(HTTP_PROBLEMS["REQUEST_INVALID"], "REQUEST_INVALID", f"{sentence}.", errors=named)


def _field(location: tuple[str | int, ...]) -> str:
    parts = location[1:] if location and location[0] in _PLACES else location
    name = ".".join(str(part) for part in parts) or "the body"
    return name if len(name) <= LONGEST_NAME else name[:LONGEST_NAME] + "…"
