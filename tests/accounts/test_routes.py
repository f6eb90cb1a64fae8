"""`/v1/me`, `/v1/keys` and operators' actions through the whole web application."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from longtake import Engine, open_database
from longtake.clock import SystemClock
from longtake.engine.events import read_events
from longtake.server.web import create_web
from tests.accounts.stage import Answer, ask, authenticator, claims, serving, signed

if TYPE_CHECKING:
    from collections.abc import Iterator

    from longtake import Database

CLOCK = SystemClock()
ALICE = signed(claims(CLOCK))
BOB = signed(claims(CLOCK, sub="bob"))
OPERATOR = signed(claims(CLOCK, sub="olga", role="operator"))
ADMIN = signed(claims(CLOCK, sub="ada", role="admin"))


def web(database: Database) -> Any:
    return create_web(serving(Engine(database)), allowed_hosts=[], upload_bytes=2_000_000)


@pytest.fixture
def sqlite_database(sqlite_url: str) -> Iterator[Database]:
    opened = open_database(sqlite_url)
    yield opened
    opened.close()


@pytest.fixture
def app(sqlite_database: Database) -> Any:
    """Most of what is tested here never reaches the database: one kind of it is enough."""
    return web(sqlite_database)


@pytest.fixture
def app_on_each(database: Database) -> Any:
    return web(database)


def assert_problem(answer: Answer, status: int, code: str) -> None:
    assert (answer.status, answer.json.get("code")) == (status, code), answer.body
    assert answer.headers["content-type"] == "application/problem+json"


async def create(app: Any, token: str = ALICE, **fields: Any) -> Answer:
    return await ask(app, "POST", "/v1/keys", token=token, json={"name": "import", **fields})


async def names(app: Any, token: str) -> list[str]:
    return [key["name"] for key in (await ask(app, "GET", "/v1/keys", token=token)).json["keys"]]


@pytest.mark.parametrize(
    ("told", "headers", "who"),
    [
        ({}, {}, ("alice", "user", ["generate", "read"])),
        ({"role": "admin", "scope": "read"}, {}, ("alice", "admin", ["read"])),
        ({"scopes": []}, {}, ("alice", "user", [])),
        ({"sub": "shop", "role": "service"}, {"longtake-user": "bob"}, ("bob", "service", ["generate", "read"])),
    ],
)
async def test_one_is_told_who_one_is(
    app: Any, told: dict[str, Any], headers: dict[str, str], who: tuple[str, str, list[str]]
) -> None:
    answer = await ask(app, "GET", "/v1/me", token=signed(claims(CLOCK, **told)), headers=headers)
    assert (answer.status, answer.json) == (200, dict(zip(("user_id", "role", "scopes"), who, strict=True)))


async def test_a_key_says_who_its_maker_is_until_it_is_revoked(app_on_each: Any) -> None:
    made = (await create(app_on_each, scopes=["read"])).json
    answer = await ask(app_on_each, "GET", "/v1/me", token=made["key"])
    assert answer.json == {"user_id": "alice", "role": "user", "scopes": ["read"]}
    assert (await ask(app_on_each, "DELETE", f"/v1/keys/{made['id']}", token=ALICE)).status == 204
    assert_problem(await ask(app_on_each, "GET", "/v1/me", token=made["key"]), 401, "UNAUTHORIZED")


async def test_a_key_is_shown_once_works_and_can_be_revoked(app_on_each: Any) -> None:
    app = app_on_each
    made = await create(app, scopes=["read"], expires_in_days=90)
    assert made.status == 201
    key = made.json["key"]
    assert (made.json["scopes"], made.json["role"], key[:10]) == (["read"], "user", made.json["prefix"])
    listed = await ask(app, "GET", "/v1/keys", token=key)
    assert listed.status == 200
    assert key.encode() not in listed.body
    assert [one["id"] for one in listed.json["keys"]] == [made.json["id"]]
    assert (await ask(app, "DELETE", f"/v1/keys/{made.json['id']}", token=ALICE)).status == 204
    assert_problem(await ask(app, "GET", "/v1/keys", token=key), 401, "UNAUTHORIZED")


async def test_a_key_with_less_may_do_less(app: Any) -> None:
    key = (await create(app, scopes=["read"])).json["key"]
    assert_problem(await ask(app, "DELETE", "/v1/keys/x", token=key), 403, "FORBIDDEN")
    nothing = signed(claims(CLOCK, scopes=[]))
    assert_problem(await ask(app, "GET", "/v1/keys", token=nothing), 403, "FORBIDDEN")
    assert_problem(await create(app, nothing), 403, "FORBIDDEN")


@pytest.mark.parametrize("scopes", [["operate"], ["read", "admin"]])
async def test_nobody_gives_away_what_they_do_not_have(app: Any, scopes: list[str]) -> None:
    assert_problem(await create(app, scopes=scopes), 403, "FORBIDDEN")
    narrowed = signed(claims(CLOCK, role="admin", scope="read generate"))
    assert_problem(await create(app, narrowed, scopes=scopes), 403, "FORBIDDEN")
    assert (await create(app, narrowed)).json["scopes"] == ["generate", "read"]
    assert (await create(app, ADMIN, scopes=scopes)).status == 201


async def test_a_key_cannot_make_another_so_that_revoking_it_is_enough(app: Any) -> None:
    key = (await create(app)).json["key"]
    assert_problem(await create(app, key), 403, "FORBIDDEN")


async def test_what_a_service_makes_for_a_user_cannot_act_for_others(app: Any) -> None:
    service = signed(claims(CLOCK, sub="importer", role="service"))
    made = await ask(app, "POST", "/v1/keys", token=service, json={"name": "x"}, headers={"longtake-user": "bob"})
    assert (made.status, made.json["role"]) == (201, "user")
    assert await names(app, BOB) == ["x"]
    acting = await ask(app, "GET", "/v1/keys", token=made.json["key"], headers={"longtake-user": "alice"})
    assert_problem(acting, 403, "FORBIDDEN")


async def test_another_users_key_is_not_there(app_on_each: Any) -> None:
    app = app_on_each
    mine = (await create(app)).json
    assert await names(app, BOB) == []
    foreign = await ask(app, "DELETE", f"/v1/keys/{mine['id']}", token=BOB)
    unknown = await ask(app, "DELETE", "/v1/keys/0199c1f2-7a40-7cc3-98c4-dc0c0c07398f", token=BOB)
    for answer in (foreign, unknown, await ask(app, "DELETE", "/v1/keys/not-an-id", token=BOB)):
        assert_problem(answer, 404, "NOT_FOUND")
    assert await names(app, ALICE) == ["import"]


@pytest.mark.parametrize("token", [None, "wrong", "lt_wrong", "server-token"])
@pytest.mark.parametrize(
    ("method", "path"),
    [("GET", "/v1/me"), ("GET", "/v1/keys"), ("POST", "/v1/keys"), ("DELETE", "/v1/keys/x")],
)
async def test_strangers_learn_nothing(app: Any, method: str, path: str, token: str | None) -> None:
    answer = await ask(app, method, path, token=token, json={"colour": "red"})
    assert_problem(answer, 401, "UNAUTHORIZED")
    assert answer.headers["www-authenticate"] == "Bearer"
    assert b"colour" not in answer.body


@pytest.mark.parametrize(
    ("fields", "field", "message"),
    [
        ({"colour": "red"}, "colour", "is not known"),
        ({"name": None}, "name", "must be text"),
        ({"name": ""}, "name", "must have 1 or more characters"),
        ({"name": "x" * 101}, "name", "must have at most 100 characters"),
        ({"name": "a\nb"}, "name", "must be printable"),
        ({"scopes": ["everything"]}, "scopes.0", "must be 'read', 'generate', 'operate' or 'admin'"),
        ({"scopes": "read"}, "scopes", "must be a list"),
        ({"expires_in_days": 0}, "expires_in_days", "must be at least 1"),
        ({"expires_in_days": 10**30}, "expires_in_days", "must be "),
    ],
)
async def test_a_wrong_field_is_named(app: Any, fields: dict[str, Any], field: str, message: str) -> None:
    answer = await create(app, **fields)
    assert_problem(answer, 422, "REQUEST_INVALID")
    (error,) = answer.json["errors"]
    assert error["field"] == field
    assert error["message"].startswith(message)
    assert await names(app, ALICE) == []


async def test_too_many_requests_are_told_when_to_come_back(sqlite_database: Database) -> None:
    engine = Engine(sqlite_database)
    app = create_web(serving(engine, authenticator(engine, per_minute=20)), allowed_hosts=[], upload_bytes=1_000_000)
    answers = [await ask(app, "GET", "/v1/keys", token=ALICE) for _ in range(3)]
    assert [answer.status for answer in answers] == [200, 200, 429]
    assert_problem(answers[2], 429, "RATE_LIMITED")
    assert 1 <= int(answers[2].headers["retry-after"]) <= 3
    assert (await ask(app, "GET", "/v1/keys", token=BOB)).status == 200
    assert_problem(await ask(app, "POST", "/v1/operator/lanes.list", token=ALICE), 429, "RATE_LIMITED")


async def test_operators_act_with_their_own_token_and_leave_their_name(app: Any, sqlite_database: Database) -> None:
    assert (await ask(app, "POST", "/v1/operator/lanes.list", token=OPERATOR)).status == 200
    made = await ask(app, "POST", "/v1/operator/lanes.set", token=OPERATOR, json={"name": "posters"})
    assert made.status == 200
    by_server = await ask(app, "POST", "/v1/operator/lanes.set", token="server-token", json={"name": "others"})
    assert by_server.status == 200
    events = [event for event in await sqlite_database.read(read_events) if event.type == "operator.action"]
    assert [event.data.get("by") for event in events] == ["olga", None]


@pytest.mark.parametrize("action", ["lanes.list", "no.such"])
async def test_users_do_not_operate(app: Any, action: str) -> None:
    assert_problem(await ask(app, "POST", f"/v1/operator/{action}", token=ALICE), 403, "FORBIDDEN")


@pytest.mark.parametrize("action", ["keys.list", "keys.create", "secrets.list", "secrets.set", "credits.grant"])
async def test_some_actions_are_for_administrators(app: Any, action: str) -> None:
    assert_problem(await ask(app, "POST", f"/v1/operator/{action}", token=OPERATOR), 403, "FORBIDDEN")
    assert (await ask(app, "POST", f"/v1/operator/{action}", token=ADMIN)).status in {200, 422}


async def test_an_operators_key_operates(app: Any) -> None:
    key = (await create(app, OPERATOR, scopes=["operate"])).json["key"]
    assert (await ask(app, "POST", "/v1/operator/lanes.list", token=key)).status == 200
    plain = (await create(app, OPERATOR)).json["key"]
    assert_problem(await ask(app, "POST", "/v1/operator/lanes.list", token=plain), 403, "FORBIDDEN")
