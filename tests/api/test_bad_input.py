"""Whatever is wrong with a request: a documented code, nothing written, nothing charged."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from longtake.server.middleware import BODY_LIMIT
from tests.api.stage import NOTHING, Api, assert_problem, picture

if TYPE_CHECKING:
    from collections.abc import Iterator

IMAGES = "/v1/images/generate"
GOOD = {"model": "nano-banana", "prompt": "a red fox"}
MEASURED = {"model": "measured", "prompt": "a red fox"}


@pytest.fixture(scope="module")
def api(still_api: Api) -> Api:
    """A server where ada has credits for three images, and bob a conversation."""
    still_api.grant("ada", 12)
    return still_api


@pytest.fixture(autouse=True)
def nothing_is_written(api: Api) -> Iterator[None]:
    """Hold for every test here, whatever else it looks at."""
    before = (api.written(), api.balance())
    yield
    assert (api.written(), api.balance()) == before


REFUSED: list[tuple[str, dict[str, Any], int, str, str]] = [
    ("an unknown model", GOOD | {"model": "nano-bananna"}, 422, "MODEL_UNKNOWN", "nano-bananna"),
    ("a model of videos", GOOD | {"model": "kling-2.6"}, 422, "MODEL_UNKNOWN", "makes videos"),
    ("an unknown parameter", GOOD | {"parameters": {"aspect": "1:1"}}, 422, "PARAMETER_UNKNOWN", "aspect"),
    ("no such choice", GOOD | {"parameters": {"aspect_ratio": "7:5"}}, 422, "PARAMETER_INVALID", "aspect_ratio"),
    ("truth for a choice", MEASURED | {"parameters": {"seconds": True}}, 422, "PARAMETER_INVALID", "seconds"),
    ("a fraction for a choice", MEASURED | {"parameters": {"seconds": 5.0}}, 422, "PARAMETER_INVALID", "seconds"),
    ("too little", MEASURED | {"parameters": {"seed": -1}}, 422, "PARAMETER_INVALID", "seed"),
    ("a fraction", MEASURED | {"parameters": {"seed": 1.5}}, 422, "PARAMETER_INVALID", "seed"),
    ("a huge whole number", MEASURED | {"parameters": {"seed": 10**30}}, 422, "PARAMETER_INVALID", "seed"),
    ("a number beyond floats", MEASURED | {"parameters": {"weight": 10**400}}, 422, "PARAMETER_INVALID", "weight"),
    ("not a number", MEASURED | {"parameters": {"weight": float("nan")}}, 400, "JSON_INVALID", "NaN"),
    ("a float that overflows", MEASURED | {"parameters": {"weight": 1e300}}, 422, "PARAMETER_INVALID", "weight"),
    ("infinity", MEASURED | {"parameters": {"weight": float("inf")}}, 400, "JSON_INVALID", "Infinity"),
    ("a word for yes", MEASURED | {"parameters": {"sound": "yes"}}, 422, "PARAMETER_INVALID", "sound"),
    ("a long line", MEASURED | {"parameters": {"style": "x" * 21}}, 422, "PARAMETER_INVALID", "style"),
    ("NUL in a line", MEASURED | {"parameters": {"style": "x\0"}}, 422, "PARAMETER_INVALID", "style"),
    ("half a character in a line", MEASURED | {"parameters": {"style": "\ud800"}}, 422, "PARAMETER_INVALID", "style"),
    ("half a character in a name", GOOD | {"parameters": {"\ud800": 1}}, 400, "JSON_INVALID", "half a character"),
    ("null for a parameter", MEASURED | {"parameters": {"seed": None}}, 422, "PARAMETER_INVALID", "seed"),
    ("a list for a parameter", MEASURED | {"parameters": {"style": ["x"]}}, 422, "PARAMETER_INVALID", "style"),
    ("an empty prompt", GOOD | {"prompt": ""}, 422, "PROMPT_INVALID", "empty"),
    ("a prompt of space", GOOD | {"prompt": " \n\t\u3000"}, 422, "PROMPT_INVALID", "empty"),
    ("an over-long prompt", MEASURED | {"prompt": "x" * 101}, 422, "PROMPT_INVALID", "100"),
    ("a far too long prompt", GOOD | {"prompt": "x" * 50_001}, 422, "REQUEST_INVALID", "prompt"),
    ("NUL in a prompt", GOOD | {"prompt": "a\0b"}, 422, "PROMPT_INVALID", "control character"),
    ("an escape in a prompt", GOOD | {"prompt": "a\x1b[0mb"}, 422, "PROMPT_INVALID", "control character"),
    ("half a character", GOOD | {"prompt": "a\ud83d"}, 422, "REQUEST_INVALID", "prompt"),
    ("an unknown conversation", GOOD | {"conversation_id": NOTHING}, 404, "NOT_FOUND", NOTHING),
    ("no conversation's id", GOOD | {"conversation_id": "foxes"}, 422, "REQUEST_INVALID", "conversation_id"),
    ("a reference too many", GOOD | {"references": [NOTHING]}, 422, "REFERENCES_INVALID", "takes no reference images"),
    ("a reference too few", {"model": "nano-banana-edit", "prompt": "x"}, 422, "REFERENCES_INVALID", "reference"),
    ("too few credits", {"model": "nano-banana-pro", "prompt": "x"}, 402, "INSUFFICIENT_CREDITS", "credits"),
    ("a field too many", GOOD | {"promt": "x", "seed": 1}, 422, "REQUEST_INVALID", "promt is not known; seed is not"),
    ("a field too few", {"model": "nano-banana"}, 422, "REQUEST_INVALID", "prompt is missing"),
    ("a list for a text", GOOD | {"prompt": ["x"]}, 422, "REQUEST_INVALID", "prompt"),
    ("a number for a text", GOOD | {"prompt": 5}, 422, "REQUEST_INVALID", "prompt"),
    ("a text for a truth", GOOD | {"wait_for_result": "yes"}, 422, "REQUEST_INVALID", "wait_for_result"),
    ("too many parameters", GOOD | {"parameters": dict.fromkeys(map(str, range(31)))}, 422, "REQUEST_INVALID", "param"),
    ("half a character in a field's name", GOOD | {"\ud800": 1}, 400, "JSON_INVALID", "half a character"),
    ("NUL in a model's name", GOOD | {"model": "nano\0"}, 422, "MODEL_UNKNOWN", "nano"),
]


@pytest.mark.parametrize(
    ("content", "status", "code", "says"), [one[1:] for one in REFUSED], ids=[one[0] for one in REFUSED]
)
def test_a_request_that_cannot_be_done_is_refused_by_name(
    api: Api, content: dict[str, Any], status: int, code: str, says: str
) -> None:
    answer = api.ask("POST", IMAGES, content, headers={"Idempotency-Key": "refused"})
    assert_problem(answer, status, code)
    assert says in answer.json["detail"]


def test_too_few_credits_are_told_with_balance_and_price(api: Api) -> None:
    problem = api.generate({"model": "nano-banana-pro"}).json
    assert (problem["balance"], problem["price"]) == (12, 18)


def test_every_unknown_field_is_named(api: Api) -> None:
    problem = api.generate({"promt": "x", "seed": 1}).json
    unknown = [{"field": name, "message": "is not known"} for name in ("promt", "seed")]
    assert problem["errors"] == unknown


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b'{"model": "nano-banana", "prompt": "x",}',
        b"{'model': 'nano-banana'}",
        b'{"model": "nano-banana", "prompt": "\xff"}',
        b'{"model": "nano-banana", "prompt": "x", "parameters": ' + b'{"a":' * 20_000 + b"1" + b"}" * 20_000 + b"}",
        b'{"model": "nano-banana", "prompt": "x", "parameters": {"n": ' + b"9" * 10_000 + b"}}",
    ],
    ids=["nothing", "a half", "a comma too many", "single quotes", "not UTF-8", "too deep", "too many digits"],
)
def test_what_is_not_json_is_refused(api: Api, body: bytes) -> None:
    answer = api.ask("POST", IMAGES, body=body)
    if body:
        assert_problem(answer, 400, "JSON_INVALID")
    else:
        assert_problem(answer, 422, "REQUEST_INVALID")


@pytest.mark.parametrize("body", [b"[]", b"null", b"7", b'"a fox"', b"[{}]"])
@pytest.mark.parametrize("path", [IMAGES, "/v1/runs", "/v1/assets", "/v1/webhooks"])
def test_a_body_that_is_no_object_is_refused(api: Api, path: str, body: bytes) -> None:
    answer = api.ask("POST", path, body=body)
    assert_problem(answer, 400, "JSON_INVALID")
    assert answer.json["detail"] == "The body must be a JSON object."


@pytest.mark.parametrize("body", [b"[]", b'"x"', b"1", b"null", b"true"])
def test_json_that_is_no_object_is_refused(api: Api, body: bytes) -> None:
    answer = api.ask("POST", IMAGES, body=body)
    assert_problem(answer, 400, "JSON_INVALID")
    assert answer.json["detail"] == "The body must be a JSON object."


def test_a_name_that_comes_twice_is_refused(api: Api) -> None:
    """Two readers would see two different requests in it."""
    body = b'{"model": "nano-banana", "prompt": "a fox", "prompt": "a wolf"}'
    answer = api.ask("POST", IMAGES, body=body)
    assert_problem(answer, 400, "JSON_INVALID")
    assert "prompt" in answer.json["detail"]


@pytest.mark.parametrize(
    "content_type",
    [
        "text/plain",
        "application/x-www-form-urlencoded",
        "multipart/form-data; boundary=x",
        "text/plain;application/json",
        "",
    ],
)
def test_a_body_of_a_type_that_forms_can_send_is_refused(api: Api, content_type: str) -> None:
    body = json.dumps(GOOD).encode()
    answer = api.ask("POST", IMAGES, body=body, headers={"Content-Type": content_type})
    assert_problem(answer, 415, "CONTENT_TYPE_UNSUPPORTED")


def test_a_body_that_is_too_large_is_refused_on_every_route(api: Api) -> None:
    # Refused by what it says of itself, before it is sent.
    large = {"Content-Length": str(BODY_LIMIT + 1)}
    for path in (IMAGES, "/v1/videos/generate", "/v1/conversations", "/v1/keys", "/v1/callbacks/kie?reference=x"):
        assert_problem(api.ask("POST", path, body=b"", headers=large), 413, "BODY_TOO_LARGE")


@pytest.mark.parametrize("key", ["", "x" * 256, "schlüssel", "tab\tkey"])
def test_an_idempotency_key_that_cannot_be_kept_is_refused(api: Api, key: str) -> None:
    answer = api.generate(key=key.encode().decode("latin-1"))
    assert_problem(answer, 422, "IDEMPOTENCY_KEY_INVALID")


@pytest.mark.parametrize("prefer", ["wait=0", "wait=61", "wait=-1", "wait=x", "wait=", "wait=" + "9" * 5_000])
def test_a_wait_that_is_too_short_or_too_long_is_refused(api: Api, prefer: str) -> None:
    assert_problem(api.generate(headers={"Prefer": prefer}), 422, "PREFERENCE_INVALID")


def test_a_provider_without_a_key_is_told_before_anything_is_held(api: Api) -> None:
    answer = api.generate({"model": "gemini-flash-image"})
    assert_problem(answer, 503, "PROVIDER_NOT_CONFIGURED")
    run = api.ask("POST", "/v1/runs", {"scenes": [{"prompt": "a fox"}] * 3, "advance": True})
    assert_problem(run, 503, "PROVIDER_NOT_CONFIGURED")


@pytest.mark.parametrize(
    ("path", "code"),
    [
        ("/v1/tasks?limit=0", "REQUEST_INVALID"),
        ("/v1/tasks?limit=201", "REQUEST_INVALID"),
        ("/v1/tasks?limit=1e2", "REQUEST_INVALID"),
        ("/v1/tasks?status=done", "REQUEST_INVALID"),
        ("/v1/tasks?model=%00", "REQUEST_INVALID"),
        ("/v1/tasks?before=last", "REQUEST_INVALID"),
        ("/v1/tasks/fox", "REQUEST_INVALID"),
        ("/v1/conversations?before=12_x", "CURSOR_INVALID"),
        ("/v1/conversations?before=999999999999999999999_" + NOTHING, "CURSOR_INVALID"),
        ("/v1/credits/history?before=%00", "REQUEST_INVALID"),
    ],
)
def test_a_question_that_makes_no_sense_is_refused(api: Api, path: str, code: str) -> None:
    assert_problem(api.ask("GET", path), 422, code)


@pytest.mark.parametrize(
    ("path", "content"),
    [
        ("/v1/conversations", {"title": "\0"}),
        ("/v1/conversations", {"title": "x" * 201}),
        ("/v1/conversations", {"titel": "x"}),
        ("/v1/conversations", {"title": 5}),
        ("/v1/keys", {"name": "\ud800"}),
        ("/v1/keys", {"name": "x", "expires_in_days": "5"}),
        ("/v1/keys", {"name": "x", "scopes": ["everything"]}),
        (f"/v1/conversations/{NOTHING}/messages", {"text": ""}),
        (f"/v1/conversations/{NOTHING}/messages", {"text": "a\x07"}),
    ],
)
def test_other_routes_refuse_what_they_cannot_keep(api: Api, path: str, content: dict[str, Any]) -> None:
    answer = api.ask("POST", path, content)
    assert answer.json["code"] in {"REQUEST_INVALID", "TEXT_INVALID"}
    assert_problem(answer, 422, answer.json["code"])


@pytest.mark.parametrize(
    "order",
    [
        {"user_id": "ada", "amount": 0, "reason": "x"},
        {"user_id": "ada", "amount": 10**13, "reason": "x"},
        {"user_id": "ada", "amount": 5.0, "reason": "x"},
        {"user_id": "ada", "amount": True, "reason": "x"},
        {"user_id": "a\0", "amount": 5, "reason": "x"},
        {"user_id": "ada", "amount": 5, "reason": "x\0"},
        {"user_id": "ada", "amount": 5, "reason": "x", "reference": "\x1b"},
    ],
)
def test_a_grant_that_makes_no_sense_is_refused(api: Api, order: dict[str, Any]) -> None:
    answer = api.ask("POST", "/v1/admin/credits/grant", order, user="root", role="admin")
    assert_problem(answer, 422, answer.json["code"])


@pytest.mark.parametrize(
    ("body", "content_type", "code"),
    [
        (b"GIF89a", "image/png", "MEDIA_REFUSED"),
        (picture(), "text/html", "MEDIA_REFUSED"),
        (picture(), "image/jpeg", "MEDIA_REFUSED"),
        (picture()[:40], "image/png", "MEDIA_REFUSED"),
        (b"", "image/png", "MEDIA_REFUSED"),
        (b"<svg/>", "image/svg+xml", "MEDIA_REFUSED"),
    ],
)
def test_an_upload_that_is_no_picture_is_refused(api: Api, body: bytes, content_type: str, code: str) -> None:
    answer = api.ask("POST", "/v1/references", body=body, headers={"Content-Type": content_type})
    assert_problem(answer, 422, code)


def test_another_origin_gets_no_permission(api: Api) -> None:
    """Cross-origin requests are closed: a browser sends none with a token, and shows no answer to a foreign page."""
    origin = {"Origin": "https://elsewhere.example"}
    asked = {"Access-Control-Request-Method": "POST", "Access-Control-Request-Headers": "authorization,content-type"}
    preflight = api.ask("OPTIONS", IMAGES, user=None, headers=origin | asked)
    assert_problem(preflight, 405, "METHOD_NOT_ALLOWED")
    shown = api.ask("GET", "/v1/credits", headers=origin)
    assert not [name for name in (*preflight.headers, *shown.headers) if name.startswith("access-control")]


def test_a_form_of_another_site_changes_nothing(api: Api) -> None:
    """A form has no token, and no route takes a cookie in its place."""
    form = {"Content-Type": "application/x-www-form-urlencoded", "Origin": "https://elsewhere.example"}
    for path in (IMAGES, "/v1/conversations", "/v1/operator/lanes.list"):
        cookie = {"Cookie": "Authorization=Bearer x; token=x"}
        assert_problem(api.ask("POST", path, user=None, body=b"a=b", headers=form | cookie), 401, "UNAUTHORIZED")
