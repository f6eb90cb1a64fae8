"""Every route with another user's id, without a token, with too little a token.

The routes come from /openapi.json: one that is added later is among them by itself, or fails here until somebody says
whose its ids are.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest

from tests.api.stage import NOTHING, Api, assert_problem, picture
from tests.api.test_description import OPEN, OWN_FILE, examples, operations

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.service.processes import Answer

#: Parts of paths that belong to nobody.
NOBODYS = {"action": "lanes.list", "provider": "kie", "number": "1"}
FOR_OPERATORS = ("/v1/operator/", "/v1/admin/")
#: Ids that come elsewhere than in the path; each has its test below, but for titles, which are everybody's.
ELSEWHERE = {
    "GET /v1/catalogue/titles before",
    "GET /v1/tasks before",
    "GET /v1/runs before",
    "GET /v1/tasks conversation_id",
    "GET /v1/conversations/{conversation_id}/messages before",
    "GET /v1/credits/history before",
    "GET /v1/webhooks/{webhook_id}/deliveries before",
    "POST /v1/images/generate conversation_id",
    "POST /v1/images/generate references",
    "POST /v1/videos/generate conversation_id",
    "POST /v1/videos/generate references",
}


@dataclass
class World:
    """A server where bob has one of everything, and ada wants to see it."""

    api: Api
    document: dict[str, Any]
    bobs: dict[str, str]
    #: What is there for everybody.
    shared: dict[str, str]

    def call(self, method: str, path: str, operation: dict[str, Any], ids: dict[str, str], **who: Any) -> Answer:
        """Send the operation's own example to these ids."""
        content = None
        for media_type, body in operation.get("requestBody", {}).get("content", {}).items():
            content = examples(self.document, body)[0] if media_type == "application/json" else None
        filled = path.format(**ids, **NOBODYS, **self.shared) + ("?reference=unknown" if "callbacks" in path else "")
        return self.api.ask(method, filled, content, **who)


@pytest.fixture(scope="module")
def world(either_api: Api) -> World:
    api = either_api
    for user in ("ada", "bob"):
        api.grant(user, 1_000)
    conversation = api.conversation("bob")
    task = api.generate({"conversation_id": conversation}, user="bob")
    asset = api.ask("POST", "/v1/references", body=picture(), headers={"Content-Type": "image/png"}, user="bob")
    key = api.ask("POST", "/v1/keys", {"name": "bob's"}, user="bob")
    webhook = api.ask("POST", "/v1/webhooks", {"url": "https://example.com/"}, user="bob")
    delivery = api.ask("POST", f"/v1/webhooks/{webhook.json['id']}/test", user="bob")
    assert (task.status, asset.status, key.status) == (202, 201, 201)
    assert (webhook.status, delivery.status) == (201, 202)
    bobs = {"conversation_id": conversation}
    bobs |= {"task_id": task.json["id"], "asset_id": asset.json["id"], "key_id": key.json["id"]}
    run = api.ask("POST", "/v1/runs", {"scenes": [{"prompt": "a fox"}] * 3}, user="bob")
    assert run.status == 201
    bobs |= {"run_id": run.json["id"]}
    bobs |= {"webhook_id": webhook.json["id"], "delivery_id": delivery.json["id"]}
    api.write(f"UPDATE assets SET thumbnail_key = key, preview_key = key WHERE id = '{bobs['asset_id']}'")
    return World(api, api.ask("GET", "/openapi.json").json, bobs, add_title(api))


def add_title(api: Api) -> dict[str, str]:
    """Bring in a title, and a poster as if it had been fetched."""
    title = api.ask("POST", "/v1/catalogue/titles", {"title_english": "Fox"}, user="root", role="admin")
    assert title.status == 201
    folder = api.place.data / "objects" / "posters"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "fox.png").write_bytes(picture())
    return {"title_id": title.json["id"], "file": "fox.png"}


def without_ids(answer: Answer, ids: dict[str, str]) -> str:
    """The answer, if it were about nothing in particular."""
    text = answer.body.decode().replace(answer.headers["x-request-id"], "")
    for one in ids.values():
        text = text.replace(one, "ID")
    return text


def owned(world: World) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """All operations on something that has an owner."""
    for method, path, operation in operations(world.document):
        names = {one["name"] for one in operation.get("parameters", ()) if one["in"] == "path"}
        assert names <= {*world.bobs, *NOBODYS, *world.shared}, f"{method} {path}: whose is {names}?"
        if names & set(world.bobs):
            yield method, path, operation


def test_another_users_id_is_as_good_as_none(world: World) -> None:
    nothing = dict.fromkeys(world.bobs, NOTHING)
    before = (world.api.written(), world.api.balance("bob"))
    tried = 0
    for method, path, operation in owned(world):
        if path.startswith(FOR_OPERATORS):
            continue  # whoever may use these may name anybody; others are refused below
        foreign = world.call(method, path, operation, world.bobs)
        absent = world.call(method, path, operation, nothing)
        where = f"{method} {path}"
        assert (foreign.status, absent.status) == (404, 404), where
        assert without_ids(foreign, world.bobs) == without_ids(absent, nothing), where
        assert {*foreign.headers} == {*absent.headers}, where
        tried += 1
    assert tried >= 14
    assert (world.api.written(), world.api.balance("bob")) == before


def test_its_owner_reaches_each_of_them(world: World) -> None:
    """Or the test above would pass on a server that finds nothing at all."""
    for method, path, operation in owned(world):
        if method in {"GET", "HEAD"}:
            assert world.call(method, path, operation, world.bobs, user="bob").status == 200, f"{method} {path}"


def test_without_a_token_nothing_is_told(world: World) -> None:
    for method, path, operation in operations(world.document):
        answer = world.call(method, path, operation, world.bobs, user=None)
        where = f"{method} {path}: {answer.status}"
        if path in OPEN:
            # No task has the reference; nobody has set the secret.
            expected = 404 if "callbacks" in path or "internal" in path else 200
            assert answer.status == expected, where
        else:
            assert answer.status == 401, where
            assert answer.headers["www-authenticate"] == "Bearer", where


@pytest.mark.parametrize("credential", ["lt_" + "x" * 40, "a.b.c", "ü", "x" * 10_000])
def test_a_token_that_nobody_gave_is_as_good_as_none(world: World, credential: str) -> None:
    headers = {"Authorization": "Bearer " + credential.encode().decode("latin-1")}
    for method, path, operation in operations(world.document):
        if path not in OPEN:
            answer = world.call(method, path, operation, world.bobs, user=None, headers=headers)
            assert answer.status == 401, f"{method} {path}: {answer.status}"


def test_what_is_for_operators_is_forbidden_to_users(world: World) -> None:
    seen = set()
    for method, path, operation in operations(world.document):
        if path.startswith(FOR_OPERATORS):
            answer = world.call(method, path, operation, world.bobs, user="bob")
            assert_problem(answer, 403, "FORBIDDEN")
            seen.add(path)
    assert len(seen) == 3


def test_a_key_that_may_only_read_reads_everything_and_changes_nothing(world: World) -> None:
    """API keys are as good as tokens on every route, within their scopes."""
    made = world.api.ask("POST", "/v1/keys", {"name": "reader", "scopes": ["read"]}, user="bob").json
    headers = {"Authorization": f"Bearer {made['key']}"}
    before = world.api.written()
    for method, path, operation in operations(world.document):
        if path in OPEN:
            continue
        answer = world.call(method, path, operation, world.bobs, user=None, headers=headers)
        expected = 200 if method in {"GET", "HEAD"} else 403
        assert answer.status == expected, f"{method} {path}: {answer.status} {answer.body!r}"
    assert world.api.written() == before


def test_ids_that_come_elsewhere_are_all_known(world: World) -> None:
    found = set()
    for method, path, operation in operations(world.document):
        for one in operation.get("parameters", ()):
            if one["in"] == "query" and "uuid" in str(one["schema"]):
                found.add(f"{method} {path} {one['name']}")
        for content in operation.get("requestBody", {}).get("content", {}).values():
            if reference := content["schema"].get("$ref"):
                schema = world.document["components"]["schemas"][reference.rpartition("/")[2]]
                names = [name for name, field in schema["properties"].items() if "uuid" in str(field)]
                found |= {f"{method} {path} {name}" for name in names}
    assert found == ELSEWHERE


@pytest.mark.parametrize(("route", "model"), [("images", "nano-banana"), ("videos", "kling-2.6")])
def test_another_users_conversation_takes_no_task(world: World, route: str, model: str) -> None:
    before = (world.api.written(), world.api.balance())
    wanted = {"model": model, "prompt": "a fox", "conversation_id": world.bobs["conversation_id"]}
    foreign = world.api.ask("POST", f"/v1/{route}/generate", wanted)
    absent = world.api.ask("POST", f"/v1/{route}/generate", wanted | {"conversation_id": NOTHING})
    assert_problem(foreign, 404, "NOT_FOUND")
    assert without_ids(foreign, world.bobs) == without_ids(absent, {"": NOTHING})
    assert (world.api.written(), world.api.balance()) == before


@pytest.mark.parametrize(("route", "model"), [("images", "nano-banana-edit"), ("videos", "kling-2.6-image")])
def test_another_users_picture_is_no_reference(world: World, route: str, model: str) -> None:
    before = (world.api.written(), world.api.balance())
    wanted = {"model": model, "prompt": "a fox", "references": [world.bobs["asset_id"]]}
    foreign = world.api.ask("POST", f"/v1/{route}/generate", wanted)
    absent = world.api.ask("POST", f"/v1/{route}/generate", wanted | {"references": [NOTHING]})
    assert_problem(foreign, 422, "REFERENCES_INVALID")
    assert without_ids(foreign, world.bobs) == without_ids(absent, {"": NOTHING})
    assert (world.api.written(), world.api.balance()) == before


def test_lists_show_nothing_of_others(world: World) -> None:
    bobs = world.bobs
    for path in (
        f"/v1/tasks?conversation_id={bobs['conversation_id']}",
        f"/v1/tasks?before={bobs['task_id']}",
        "/v1/tasks",
        "/v1/tasks/pending",
        "/v1/runs",
        f"/v1/runs?before={bobs['run_id']}",
        "/v1/conversations",
        "/v1/keys",
        "/v1/webhooks",
    ):
        found = world.api.ask("GET", path, user="carol").json
        assert [value for value in found.values() if value] == [], path
    mine = world.api.ask("GET", f"/v1/credits/history?before={NOTHING}", user="carol").json
    assert mine == {"transfers": [], "next": None}


def test_a_signed_link_opens_one_file_and_no_other(world: World) -> None:
    mine = world.api.ask("POST", "/v1/references", body=picture(), headers={"Content-Type": "image/png"}).json
    query = mine["url"].partition("?")[2]
    file = OWN_FILE.format(asset_id=mine["id"])
    assert world.api.ask("GET", f"{file}?{query}", user=None).status == 200
    foreign = world.api.ask("GET", f"{OWN_FILE.format(asset_id=world.bobs['asset_id'])}?{query}", user=None)
    assert_problem(foreign, 403, "LINK_INVALID")
    forged = query.replace("expires=1", "expires=2")
    assert_problem(world.api.ask("GET", f"{file}?{forged}", user=None), 403, "LINK_INVALID")


def test_a_service_acts_for_the_user_it_names_and_sees_nothing_else(world: World) -> None:
    acting = {"Longtake-User": "bob"}
    path = f"/v1/tasks/{world.bobs['task_id']}"
    assert world.api.ask("GET", path, user="shop", role="service", headers=acting).status == 200
    assert world.api.ask("GET", path, user="shop", role="service").status == 404
    assert_problem(world.api.ask("GET", path, headers=acting), 403, "FORBIDDEN")
