"""Requests that do not fit: told by field, without repeating what stood in them."""

from __future__ import annotations

from typing import Annotated, Any

import pytest
from fastapi import FastAPI
from pydantic import BaseModel, ConfigDict, Field

from longtake.http.problem_schema import install_openapi
from longtake.http.problems import install_handlers
from longtake.server.middleware import BODY_LIMIT, Frame
from tests.accounts.stage import ask

UPLOAD_LIMIT = 3_000_000


class Inner(BaseModel):
    model_config = ConfigDict(extra="forbid")
    seconds: int = Field(ge=1)


class Wanted(BaseModel):
    model_config = ConfigDict(extra="forbid")
    prompt: Annotated[str, Field(min_length=1)]
    api_key: Annotated[str, Field(pattern="^[a-z]+$")] = "x"
    parts: list[Inner] = []


@pytest.fixture
def app() -> Any:
    api = FastAPI()

    @api.post("/v1/things")
    async def things(wanted: Wanted, limit: Annotated[int, Field(le=10)] = 1) -> dict[str, int]:
        return {"length": len(wanted.prompt), "limit": limit}

    @api.post("/v1/references")
    async def references(wanted: Wanted) -> dict[str, int]:
        return {"length": len(wanted.prompt)}

    install_handlers(api)
    install_openapi(api)
    return Frame(api, [], {("POST", "/v1/references"): UPLOAD_LIMIT})


async def errors(app: Any, content: Any) -> list[tuple[str, str]]:
    answer = await ask(app, "POST", "/v1/things", json=content)
    assert (answer.status, answer.json["code"]) == (422, "REQUEST_INVALID")
    assert answer.headers["content-type"] == "application/problem+json"
    assert answer.json["detail"].endswith(".")
    return [(error["field"], error["message"]) for error in answer.json["errors"]]


async def test_what_fits_passes(app: Any) -> None:
    assert (await ask(app, "POST", "/v1/things", json={"prompt": "a cat"})).json == {"length": 5, "limit": 1}


async def test_missing_and_unknown_fields_are_named(app: Any) -> None:
    assert await errors(app, {"promt": "a cat"}) == [("prompt", "is missing"), ("promt", "is not known")]
    assert await errors(app, {"prompt": "x", "parts": [{"seconds": 1}, {"second": 1}]}) == [
        ("parts.1.seconds", "is missing"),
        ("parts.1.second", "is not known"),
    ]


async def test_a_wrong_value_is_explained_and_not_repeated(app: Any) -> None:
    ((field, message),) = await errors(app, {"prompt": {"canary": "canary-value"}})
    assert field == "prompt"
    assert message == "must be text"
    ((field, message),) = await errors(app, {"prompt": "x", "parts": [{"seconds": "canary-value"}]})
    assert field == "parts.0.seconds"
    assert "canary" not in message


async def test_of_a_secret_not_even_the_reason_is_told(app: Any) -> None:
    assert await errors(app, {"prompt": "x", "api_key": "CANARY"}) == [("api_key", "is not valid")]


@pytest.mark.parametrize("content", ["x", 1, True, ["x"]])
async def test_a_body_that_is_no_object_is_refused_as_such(app: Any, content: object) -> None:
    answer = await ask(app, "POST", "/v1/things", json=content)
    assert (answer.status, answer.json["code"]) == (400, "JSON_INVALID")


async def test_long_names_are_cut_and_many_errors_are_not_all_named(app: Any) -> None:
    ((field, _message),) = await errors(app, {"prompt": "x", "y" * 10_000: 1})
    assert len(field) == 81
    assert len(await errors(app, {"prompt": "x", **{f"field_{number}": 1 for number in range(500)}})) == 20


@pytest.mark.parametrize("body", [b"{", b"", b"{'a': 1}", b"nul", b'{"prompt": "\xff"}', b"[" * 100_000])
async def test_what_is_no_json_is_a_bad_request(app: Any, body: bytes) -> None:
    answer = await ask(app, "POST", "/v1/things", body=body, headers={"content-type": "application/json"})
    if body:
        assert (answer.status, answer.json["code"]) == (400, "JSON_INVALID")
    else:
        assert (answer.status, answer.json["code"]) == (422, "REQUEST_INVALID")


@pytest.mark.parametrize("content_type", [None, "text/plain", "application/x-www-form-urlencoded", "text/json", "x"])
async def test_another_content_type_is_unsupported(app: Any, content_type: str | None) -> None:
    """A32: a form of another page cannot send `application/json`, and nothing else is read."""
    headers = {} if content_type is None else {"content-type": content_type}
    answer = await ask(app, "POST", "/v1/things", body=b'{"prompt": "x"}', headers=headers)
    assert (answer.status, answer.json["code"]) == (415, "CONTENT_TYPE_UNSUPPORTED")


def document(size: int) -> bytes:
    return b'{"prompt": "' + b"x" * (size - 14) + b'"}'


@pytest.mark.parametrize(("path", "limit"), [("/v1/things", BODY_LIMIT), ("/v1/references", UPLOAD_LIMIT)])
async def test_each_route_has_its_limit_whether_a_length_is_said_or_not(app: Any, path: str, limit: int) -> None:
    for said in (True, False):
        for size, status in ((limit, 200), (limit + 1, 413)):
            headers = {"content-type": "application/json"} | ({"content-length": str(size)} if said else {})
            answer = await ask(app, "POST", path, body=document(size), headers=headers)
            assert answer.status == status, (said, size)
            assert status == 200 or f"{limit:,}" in answer.json["detail"]


async def test_a_length_beyond_reason_is_refused_and_not_computed(app: Any) -> None:
    headers = {"content-type": "application/json", "content-length": "9" * 10_000}
    assert (await ask(app, "POST", "/v1/things", body=b"{}", headers=headers)).status == 413


async def test_other_origins_are_refused_by_default(app: Any) -> None:
    """A31: other origins."""
    headers = {"origin": "https://evil.example", "access-control-request-method": "POST"}
    preflight = await ask(app, "OPTIONS", "/v1/things", headers=headers)
    plain = await ask(app, "POST", "/v1/things", json={"prompt": "x"}, headers=headers)
    assert preflight.status == 405
    for answer in (preflight, plain):
        assert not [name for name in answer.headers if name.startswith("access-control")]


async def test_the_description_says_that_every_error_is_a_problem(app: Any) -> None:
    described = (await ask(app, "GET", "/openapi.json")).json
    responses = described["paths"]["/v1/things"]["post"]["responses"]
    assert list(responses["422"]["content"]) == ["application/problem+json"]
    assert list(responses["default"]["content"]) == ["application/problem+json"]
    assert "HTTPValidationError" not in described["components"]["schemas"]
    assert described["components"]["schemas"]["Problem"]["required"] == [
        "type", "title", "status", "code", "detail", "request_id",
    ]  # fmt: skip
