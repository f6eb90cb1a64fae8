"""/openapi.json: what FastAPI knows, and what it does not know about our problems."""

from collections.abc import Iterator
from typing import Any

from fastapi import FastAPI
from pydantic import BaseModel

from longtake.http.problem_schema import MEDIA_TYPE, Problem, problems

_REPLACED = ("HTTPValidationError", "ValidationError")
_REF = "#/components/schemas/{model}"


def install_description(app: FastAPI) -> None:
    """Let the description say that every error is a problem."""
    of_fastapi = app.openapi

    def described() -> dict[str, Any]:
        first_time = app.openapi_schema is None
        document = of_fastapi()
        if first_time:
            _correct(document)
            _restore_examples(document["components"]["schemas"])
        return document

    app.openapi = described  # type: ignore[method-assign] # FastAPI's documented way


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
    """Add what can happen to any request, and say in our words what FastAPI found out by itself."""
    for code in ("REQUEST_INVALID", "HOST_UNKNOWN"):
        for status, response in problems(code).items():
            theirs = "HTTPValidationError" in str(responses.get(str(status)))
            if theirs or code == "HOST_UNKNOWN":
                responses[str(status)] = response


def _restore_examples(schemas: dict[str, Any]) -> None:
    """Put examples back as they were written: FastAPI leaves out whatever is null in them."""
    for model in _descendants(BaseModel):
        extra = model.model_config.get("json_schema_extra")
        if model.__module__.startswith("longtake.") and model.__name__ in schemas and isinstance(extra, dict):
            schemas[model.__name__] |= extra


def _descendants(kind: type[BaseModel]) -> Iterator[type[BaseModel]]:
    for child in kind.__subclasses__():
        yield child
        yield from _descendants(child)
