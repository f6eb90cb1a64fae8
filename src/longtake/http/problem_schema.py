"""/openapi.json: FastAPI's description, corrected to show complete examples, and the problems of each route.

``@router.get("…", responses=problems(*CALLER, "NOT_FOUND"))``
"""

from collections import defaultdict
from collections.abc import Iterator
from typing import Any

from fastapi import FastAPI
from pydantic import BaseModel, ConfigDict, Field

from longtake.http.problems import TITLES, status_of_code

MEDIA_TYPE = "application/problem+json"
_ID = "0199c1f2-7a40-7cc3-98c4-dc0c0c07398f"

#: An example of the `detail` of each code that a route can answer with.
PROBLEMS: dict[str, str] = {
    "JSON_INVALID": "The body is not JSON: Expecting value at character 12.",
    "UNAUTHORIZED": "This request needs a token or an API key.",
    "INTERNAL_SECRET_REFUSED": "X-Internal-Secret is not the secret of this server.",
    "INSUFFICIENT_CREDITS": "This costs 30 credits; 12 are available.",
    "FORBIDDEN": "This request needs the scope 'generate', which your token or key does not have.",
    "LINK_INVALID": "This link has expired.",
    "NOT_FOUND": f"There is no task {_ID}.",
    "ACTION_UNKNOWN": "There is no action 'jobs.lst'.",
    "STATE_CONFLICT": f"The task {_ID} is already completed and cannot be cancelled.",
    "IDEMPOTENCY_KEY_IN_USE": "The first request with this Idempotency-Key is still running.",
    "ASSET_GONE": f"The file of the asset {_ID} is missing from the storage.",
    "BODY_TOO_LARGE": "The body is larger than 1,000,000 bytes.",
    "OBJECT_TOO_LARGE": "The file has more than 20,000,000 bytes.",
    "CONTENT_TYPE_UNSUPPORTED": "The body must be JSON.",
    "HOST_UNKNOWN": "The Host header does not name this server.",
    "REQUEST_INVALID": "prompt is missing.",
    "ADDRESS_REFUSED": "10.0.0.8 is not on the public internet.",
    "ACTION_ARGUMENT_INVALID": "limit: must be at most 500.",
    "AMOUNT_INVALID": "The amount must be 1 to 1,000,000,000,000 credits.",
    "CURSOR_INVALID": "Invalid cursor in before. Pass back `next` unchanged.",
    "DEFINITION_INVALID": "burst needs rate_count and rate_seconds.",
    "IDEMPOTENCY_KEY_INVALID": "An Idempotency-Key must have 1 to 255 visible ASCII characters.",
    "IDEMPOTENCY_KEY_REUSED": "This Idempotency-Key was used with another request.",
    "MEDIA_REFUSED": "The body is no image of a supported type; its Content-Type says 'image/png'.",
    "MODEL_UNKNOWN": "There is no model 'nano-bananna'.",
    "MODEL_NOT_FOR_SCENES": "The model nano-banana cannot be used for scenes.",
    "PARAMETER_INVALID": "The parameter aspect_ratio must be one of 1:1, 16:9.",
    "PARAMETER_UNKNOWN": "nano-banana has no parameter 'aspect'.",
    "PREFERENCE_INVALID": "`Prefer: wait=n` takes 1 to 60 seconds.",
    "PROMPT_INVALID": "The prompt is empty.",
    "REFERENCES_INVALID": "nano-banana takes no reference images; given: 1.",
    "SCENE_COUNT_INVALID": "A run has 3, 5, 7 or 10 scenes; given: 4.",
    "POSTER_PATH_INVALID": "'/etc/fox.jpg' is neither an http(s) address nor a path below /posters/.",
    "TITLE_INVALID": "The title has neither a Bangumi id nor a name.",
    "TEXT_INVALID": "title has a control character (U+0000) at position 3.",
    "IMPORTS_TOO_MANY": "This user has 1,000 unfinished imports; wait until some have ended.",
    "PROCESSINGS_TOO_MANY": "3 requests process the queue in this server already.",
    "RATE_LIMITED": "You have sent too many requests.",
    "STREAMS_TOO_MANY": "You have too many event streams open.",
    "TASKS_TOO_MANY": "One user may have 1,000 unfinished tasks. Wait until some have ended.",
    "DATABASE_UNAVAILABLE": "The database cannot be reached.",
    "NOT_READY": "Not ready: database: the database did not answer within 2 s.",
    "PROVIDER_NOT_CONFIGURED": "The model veo3 cannot be used: its provider kie_veo has no key.",
    "PUBLIC_URL_MISSING": "kie fetches reference images itself, and this server has no public address.",
    "STORAGE_UNAVAILABLE": "The storage cannot be used now.",
}

#: The problems of every route that authenticates its caller.
CALLER = ("UNAUTHORIZED", "FORBIDDEN", "RATE_LIMITED", "DATABASE_UNAVAILABLE")
#: The problems of every route that reads a JSON body.
BODY = ("JSON_INVALID", "BODY_TOO_LARGE", "CONTENT_TYPE_UNSUPPORTED", "REQUEST_INVALID")

_REPLACED = ("HTTPValidationError", "ValidationError")
_REF = "#/components/schemas/{model}"


class FieldProblem(BaseModel):
    """What is wrong with one field."""

    field: str = Field(examples=["prompt"])
    message: str = Field(examples=["is missing"])


class Problem(BaseModel):
    """An RFC 9457 problem. Some have further members: what a program may want to know besides the sentence."""

    model_config = ConfigDict(extra="allow")

    type: str = Field(examples=["about:blank"])
    title: str = Field(examples=["Not Found"])
    status: int = Field(examples=[404])
    code: str = Field(description="Stable; for programs.", examples=["NOT_FOUND"])
    detail: str = Field(description="What was wrong, for people.", examples=["There is no such key."])
    hint: str = Field(default="", description="What to do next.")
    request_id: str = Field(description="Under which the server's log has the details.")
    errors: list[FieldProblem] = Field(default=[], description="Of REQUEST_INVALID: each field that is wrong.")


def problems(*codes: str) -> dict[int | str, dict[str, Any]]:
    """Return the `responses` of a route that can answer with these problems, by status."""
    by_status: dict[int, list[str]] = defaultdict(list)
    for code in codes:
        by_status[status_of_code(code)].append(code)
    return {status: _response(by_status[status]) for status in sorted(by_status)}


def answers(model: type[BaseModel], *codes: str) -> dict[int | str, dict[str, Any]]:
    """Return the `responses` of a route that answers its caller with this model, or with one of these problems."""
    return {200: {"model": model}} | problems(*CALLER, *codes)


def _response(codes: list[str]) -> dict[str, Any]:
    content = {
        "schema": {"$ref": "#/components/schemas/Problem"},
        "examples": {code: {"value": example(code)} for code in codes},
    }
    return {"description": ", ".join(f"`{code}`" for code in codes), "content": {MEDIA_TYPE: content}}


def example(code: str) -> dict[str, Any]:
    """Return an example of a problem with this code."""
    status = status_of_code(code)
    shown = {"type": "about:blank", "title": TITLES[status], "status": status, "code": code, "detail": PROBLEMS[code]}
    return {**shown, "request_id": _ID}


def install_openapi(app: FastAPI) -> None:
    """Make /openapi.json say that every error is a problem."""
    generate = app.openapi

    def described() -> dict[str, Any]:
        first_time = app.openapi_schema is None
        document = generate()
        if first_time:
            _correct(document)
            _restore_examples(document["components"]["schemas"])
        return document

    app.openapi = described  # type: ignore[method-assign] # the way FastAPI documents


def _correct(document: dict[str, Any]) -> None:
    schemas = document.setdefault("components", {}).setdefault("schemas", {})
    for name in _REPLACED:
        schemas.pop(name, None)
    problem = Problem.model_json_schema(ref_template=_REF)
    schemas |= problem.pop("$defs", {}) | {"Problem": problem}
    content = {MEDIA_TYPE: {"schema": {"$ref": _REF.format(model="Problem")}}}
    for operations in document["paths"].values():
        for operation in operations.values():
            _complete(operation["responses"])
            operation["responses"]["default"] = {"description": "Any other problem", "content": content}


def _complete(responses: dict[str, Any]) -> None:
    """Add the problems that any request can have, and replace FastAPI's own validation response."""
    for code in ("REQUEST_INVALID", "HOST_UNKNOWN"):
        for status, response in problems(code).items():
            is_theirs = "HTTPValidationError" in str(responses.get(str(status)))
            if is_theirs or code == "HOST_UNKNOWN":
                responses[str(status)] = response


def _restore_examples(schemas: dict[str, Any]) -> None:
    """Restore the examples as written: FastAPI drops all null values from them."""
    for model in _descendants(BaseModel):
        extra = model.model_config.get("json_schema_extra")
        if model.__module__.startswith("longtake.") and model.__name__ in schemas and isinstance(extra, dict):
            schemas[model.__name__] |= extra


def _descendants(kind: type[BaseModel]) -> Iterator[type[BaseModel]]:
    for child in kind.__subclasses__():
        yield child
        yield from _descendants(child)
