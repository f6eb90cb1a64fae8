"""/openapi.json is complete: each operation says what it takes and answers, with examples, and in which trouble."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jsonschema_rs
import orjson
import pytest

from longtake.errors import errors_by_code
from longtake.http.problem_schema import BODY, CALLER, PROBLEMS, example
from longtake.http.problems import HTTP_PROBLEMS, HttpProblem, error_response

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.api.stage import Api

#: Whoever calls these is not asked for a token.
OPEN = {"/healthz", "/readyz", "/posters/{file}", "/v1/callbacks/{provider}", "/v1/internal/process"}
OWN_FILE = "/v1/assets/{asset_id}/content"
OWN_FILES = {OWN_FILE, "/v1/assets/{asset_id}/thumbnail", "/v1/assets/{asset_id}/preview"}


@pytest.fixture(scope="module")
def document(still_api: Api) -> dict[str, Any]:
    found: dict[str, Any] = still_api.ask("GET", "/openapi.json", user=None).json
    return found


def operations(document: dict[str, Any]) -> Iterator[tuple[str, str, dict[str, Any]]]:
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            yield method.upper(), path, operation


def resolved(document: dict[str, Any], schema: dict[str, Any]) -> dict[str, Any]:
    """A schema that stands by itself."""
    return {**schema, "components": document["components"]}


def examples(document: dict[str, Any], content: dict[str, Any]) -> list[Any]:
    """What stands for an example, beside the schema or in it."""
    if "example" in content:
        return [content["example"]]
    if "examples" in content:
        return [one["value"] for one in content["examples"].values()]
    schema = content.get("schema", {})
    if reference := schema.get("$ref"):
        schema = document["components"]["schemas"][reference.rpartition("/")[2]]
    return list(schema.get("examples", []))


def test_every_operation_is_described(document: dict[str, Any]) -> None:
    for method, path, operation in operations(document):
        where = f"{method} {path}"
        assert operation["summary"], where
        assert operation["description"].endswith("."), where
        assert operation["tags"], where
        for parameter in operation.get("parameters", ()):
            # An id in a path says what it is by its name and its place.
            if not parameter["name"].endswith("_id") or parameter["in"] != "path":
                assert parameter.get("description"), f"{where} {parameter['name']}"


def test_every_body_and_answer_has_an_example_that_fits_its_schema(document: dict[str, Any]) -> None:
    seen = 0
    for method, path, operation in operations(document):
        bodies = [operation.get("requestBody", {}), *operation["responses"].values()]
        for body in bodies:
            for media_type, content in body.get("content", {}).items():
                if "json" not in media_type:
                    continue
                if content.get("schema") == {"$ref": "#/components/schemas/Problem"} and "examples" not in content:
                    continue  # `default`: any problem that is not foreseen
                found = examples(document, content)
                assert found, f"{method} {path} {media_type} {body.get('description')}"
                checker = jsonschema_rs.validator_for(resolved(document, content["schema"]))
                for one in found:
                    checker.validate(one)
                    seen += 1
    assert seen > 100


def test_every_operation_says_which_problems_it_answers(document: dict[str, Any]) -> None:
    for method, path, operation in operations(document):
        statuses = set(operation["responses"])
        where = f"{method} {path}: {sorted(statuses)}"
        assert {"421", "default"} <= statuses, where
        if path not in OPEN:
            assert {"401", "403", "429", "503"} <= statuses, where
        if "{" in path:
            assert "404" in statuses, where
        if any(one["in"] in {"path", "query", "header"} for one in operation.get("parameters", ())):
            assert "422" in statuses, where
        if "$ref" in str(operation.get("requestBody", "")):
            assert {"400", "413", "415", "422"} <= statuses, where
        for status in statuses - {"default"}:
            if status >= "400" and status != "416":
                assert set(operation["responses"][status]["content"]) == {"application/problem+json"}, where


def test_every_operation_says_whether_it_needs_a_token(document: dict[str, Any]) -> None:
    assert document["components"]["securitySchemes"]["bearer"]["scheme"] == "bearer"
    for method, path, operation in operations(document):
        needed: list[dict[str, list[str]]] = [{"bearer": []}]
        by_link: list[dict[str, list[str]]] = [{}] if path in OWN_FILES else []
        wanted = None if path in OPEN else needed + by_link
        assert operation.get("security") == wanted, f"{method} {path}"


def test_bodies_refuse_what_they_do_not_know(document: dict[str, Any]) -> None:
    for method, path, operation in operations(document):
        for content in operation.get("requestBody", {}).get("content", {}).values():
            if reference := content["schema"].get("$ref"):
                schema = document["components"]["schemas"][reference.rpartition("/")[2]]
                assert schema["additionalProperties"] is False, f"{method} {path}"


def test_nothing_of_fastapis_own_form_of_errors_is_left(document: dict[str, Any]) -> None:
    assert "HTTPValidationError" not in str(document)


def test_described_problems_have_the_status_they_are_answered_with() -> None:
    answered = {code: HttpProblem(code, "x.").response() for code in HTTP_PROBLEMS}
    answered |= {code: error_response(kind("x.")) for code, kind in errors_by_code().items()}
    for code, sentence in PROBLEMS.items():
        body = orjson.loads(answered[code].body)
        assert {name: example(code)[name] for name in ("status", "title", "code")} == {
            name: body[name] for name in ("status", "title", "code")
        }
        assert answered[code].status_code == body["status"]
        assert sentence.endswith(".")


def documented() -> dict[str, str]:
    """What docs/http.md says of each route, by method and path."""
    text = (Path(__file__).parents[2] / "docs/http.md").read_text(encoding="utf-8").split("\n## Each route\n")[1]
    parts = text.split("\n### `")[1:]
    return {part.partition("`")[0]: part.partition("`\n")[2] for part in parts}


def test_the_document_shows_each_route_with_the_examples_of_its_description(document: dict[str, Any]) -> None:
    pages = documented()
    assert set(pages) == {f"{method} {path}" for method, path, _operation in operations(document)}
    for method, path, operation in operations(document):
        text = pages[f"{method} {path}"]
        request = text.split("```http\n", 1)[1].split("\n", 1)[0]
        pattern = re.sub(r"\\{\w+\\}", "[^/?]+", re.escape(path))
        assert re.fullmatch(rf"{method} {pattern}(\?\S+)?", request), request
        answers = [body for body in operation["responses"].values() if "application/json" in body.get("content", {})]
        known = [one for body in answers for one in examples(document, body["content"]["application/json"])]
        for shown in re.findall(r"```json\n(.*?)```", text, flags=re.DOTALL):
            assert json.loads(shown) in known, f"{method} {path}"


def test_the_document_names_the_problems_of_each_route(document: dict[str, Any]) -> None:
    pages = documented()
    for method, path, operation in operations(document):
        listed = {
            code
            for body in operation["responses"].values()
            for code in body.get("content", {}).get("application/problem+json", {}).get("examples", ())
        }
        where = f"{method} {path}"
        line = re.search(r"^Problems: (.*?)\.$", pages[where], flags=re.DOTALL | re.MULTILINE)
        named = set(re.findall(r"`(\w+)`", line[1])) if line else set()
        if line and line[1] == "as above":
            continue
        assert named == listed - {*CALLER, *BODY, "HOST_UNKNOWN"}, where
