"""Requests whose fields are wrong: each is named with what is wrong with it. What stood in it is not repeated."""

from collections.abc import Iterable, Mapping
from typing import Any

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError

from longtake.http.problems import HTTP_PROBLEMS, HttpProblem, literal_path_problem, problem
from longtake.redaction import names_a_secret

MOST_NAMED = 20
LONGEST_NAME = 80
_PLACES = {"body", "query", "path", "header", "cookie"}


def install_validation_handler(app: FastAPI) -> None:
    """Turn FastAPI's finding that a request does not fit its route into a problem."""

    async def invalid(request: Request, error: Exception) -> Response:
        assert isinstance(error, RequestValidationError)  # noqa: S101 - registered for nothing else
        elsewhere = literal_path_problem(request)
        return validation_response(error) if elsewhere is None else elsewhere.response()

    app.add_exception_handler(RequestValidationError, invalid)


def validation_response(error: RequestValidationError) -> Response:
    """Return the problem for a request that does not fit its route."""
    found = error.errors()
    if any(details["type"] == "json_invalid" for details in found):
        return HttpProblem("JSON_INVALID", f"The body is not JSON: {_json_reason(found)}.").response()
    if any(details["loc"] == ("body",) and isinstance(details["input"], bytes) for details in found):
        # FastAPI hands over the bytes as they are when their type is not one it reads.
        return HttpProblem(
            "CONTENT_TYPE_UNSUPPORTED", "The body must be JSON.", "Send `Content-Type: application/json`."
        ).response()
    named = [{"field": _field(details["loc"]), "message": _message(details)} for details in found[:MOST_NAMED]]
    status, title = HTTP_PROBLEMS["REQUEST_INVALID"]
    sentence = "; ".join(f"{one['field']} {one['message']}" for one in named)
    return problem(status, title, "REQUEST_INVALID", f"{sentence}.", errors=named)


def _json_reason(found: Iterable[Mapping[str, Any]]) -> str:
    details = next(details for details in found if details["type"] == "json_invalid")
    return f"{details['ctx']['error']} at character {details['loc'][-1]}"


def _field(location: tuple[str | int, ...]) -> str:
    parts = location[1:] if location and location[0] in _PLACES else location
    name = ".".join(str(part) for part in parts) or "the body"
    return name if len(name) <= LONGEST_NAME else name[:LONGEST_NAME] + "…"


def _message(details: Mapping[str, Any]) -> str:
    if details["type"] == "missing":
        return "is missing"
    if details["type"] == "extra_forbidden":
        return "is not known"
    if any(names_a_secret(str(part)) for part in details["loc"]):
        return "is not valid"
    if details["type"] == "value_error":
        return str(details["ctx"]["error"])
    message = str(details["msg"])
    return f"is wrong: {message[0].lower()}{message[1:]}"[:500]
