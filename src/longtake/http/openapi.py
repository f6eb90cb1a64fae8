"""/openapi.json: the description FastAPI generates, corrected to show problems and complete examples."""

from collections.abc import Iterator
from typing import Any

from fastapi import FastAPI
from pydantic import BaseModel

from longtake.http.problem_schema import MEDIA_TYPE, Problem, problems

_REPLACED = ("HTTPValidationError", "ValidationError")
_REF = "#/components/schemas/{model}"


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
