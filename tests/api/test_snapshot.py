"""One request brings back all that a page shows: of one moment, and nobody else's."""

from __future__ import annotations

import json
import threading
from typing import TYPE_CHECKING, Any

import pytest

from longtake.clock import new_id
from longtake.services.live.event_log import read_cursor
from tests.api.stage import Api, assert_problem, place_for
from tests.sandbox_process import SandboxProcess, running_sandbox

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.databases import PostgresqlServer

MEMBERS = [
    "cursor", "at", "user_id", "server_time", "credits", "conversations", "conversations_next", "unread",
    "tasks", "tasks_more", "recent",
]  # fmt: skip


def newcomer(api: Api, amount: int = 1_000) -> str:
    """A user nobody has heard of; the server is shared by the tests of this file."""
    user = f"user-{new_id()}"
    if amount:
        api.grant(user, amount)
    return user


def snapshot(api: Api, user: str) -> dict[str, Any]:
    answer = api.ask("GET", "/v1/snapshot", user=user)
    assert answer.status == 200, answer.body
    assert answer.headers["cache-control"] == "no-store"
    found: dict[str, Any] = answer.json
    return found


def test_somebody_without_anything_gets_an_empty_snapshot(either_api: Api) -> None:
    user = newcomer(either_api, amount=0)
    found = snapshot(either_api, user)
    assert list(found) == MEMBERS
    nothing = {
        "user_id": user, "tasks": [], "tasks_more": False, "recent": [], "conversations": [],
        "conversations_next": None, "unread": 0, "credits": {"available": 0, "held": 0},
    }  # fmt: skip
    assert {name: found[name] for name in nothing} == nothing
    read_cursor(found["cursor"])


def test_everything_comes_back_in_one_answer(either_api: Api) -> None:
    user = newcomer(either_api)
    conversation = either_api.conversation(user)
    task_ids = [
        either_api.generate({"prompt": f"fox {number}", "conversation_id": conversation}, user=user).json["id"]
        for number in range(3)
    ]
    gone = either_api.generate(user=user).json["id"]
    assert either_api.ask("POST", f"/v1/tasks/{gone}/cancel", user=user).status == 200
    found = snapshot(either_api, user)
    assert [task["id"] for task in found["tasks"]] == task_ids
    assert [(task["id"], task["status"]) for task in found["recent"]] == [(gone, "cancelled")]
    assert found["credits"] == {"available": 1_000 - 12, "held": 12}
    [shown] = found["conversations"]
    assert shown == either_api.ask("GET", f"/v1/conversations/{conversation}", user=user).json
    # A task looks the same everywhere; only what is estimated moves on.
    one = either_api.ask("GET", f"/v1/tasks/{task_ids[0]}", user=user).json
    assert {**found["tasks"][0], "estimate": None, "queue": None} == {**one, "estimate": None, "queue": None}
    assert found["tasks"][0]["queue"]["ahead"] < found["tasks"][2]["queue"]["ahead"]
    assert found["at"] <= either_api.generate(user=user).json["created_at"]


def test_nothing_of_anybody_else_is_in_it(either_api: Api) -> None:
    bob, ada = newcomer(either_api), newcomer(either_api, amount=0)
    conversation = either_api.conversation(bob)
    task = either_api.generate({"conversation_id": conversation}, user=bob).json["id"]
    cancelled = either_api.generate(user=bob).json["id"]
    either_api.ask("POST", f"/v1/tasks/{cancelled}/cancel", user=bob)
    seen = json.dumps(snapshot(either_api, ada))
    assert not [one for one in (bob, conversation, task, cancelled) if one in seen]
    for role in ("operator", "admin"):
        found = either_api.ask("GET", "/v1/snapshot", user=ada, role=role).json
        assert (found["tasks"], found["recent"], found["conversations"]) == ([], [], [])


def test_a_snapshot_needs_a_token_that_may_read(either_api: Api) -> None:
    assert_problem(either_api.ask("GET", "/v1/snapshot", user=None), 401, "UNAUTHORIZED")
    user = newcomer(either_api, amount=0)
    order = {"name": "writer", "scopes": ["generate"]}
    key = either_api.ask("POST", "/v1/keys", order, user=user).json["key"]
    headers = {"Authorization": f"Bearer {key}"}
    assert_problem(either_api.ask("GET", "/v1/snapshot", user=None, headers=headers), 403, "FORBIDDEN")
    assert_problem(either_api.ask("POST", "/v1/snapshot", {}, user=user), 405, "METHOD_NOT_ALLOWED")


def test_many_unfinished_tasks_and_conversations_say_that_there_are_more(either_api: Api) -> None:
    user = newcomer(either_api, amount=5_000)
    for number in range(52):
        either_api.ask("POST", "/v1/conversations", {"title": f"Foxes {number}"}, user=user)
    for _ in range(501):
        assert either_api.generate(user=user).status == 202
    found = snapshot(either_api, user)
    assert (len(found["tasks"]), found["tasks_more"]) == (500, True)
    pending = either_api.ask("GET", "/v1/tasks/pending", user=user).json
    assert (len(pending["tasks"]), pending["more"]) == (500, True)
    assert [task["id"] for task in pending["tasks"]] == [task["id"] for task in found["tasks"]]
    assert len(found["conversations"]) == 50
    path = f"/v1/conversations?before={found['conversations_next']}"
    assert len(either_api.ask("GET", path, user=user).json["conversations"]) == 2
    assert either_api.ask("POST", f"/v1/tasks/{pending['tasks'][0]['id']}/cancel", user=user).status == 200
    assert either_api.ask("GET", "/v1/tasks/pending", user=user).json["more"] is False


def test_a_snapshot_is_one_moment_while_everything_moves(either_api: Api) -> None:
    """Each task holds four credits: whatever the moment, tasks, credits and recent ends must agree with each other."""
    user = newcomer(either_api)
    stop = threading.Event()

    def move() -> None:
        while not stop.is_set():
            made = either_api.generate(user=user)
            assert made.status == 202, made.body
            cancelled = either_api.ask("POST", f"/v1/tasks/{made.json['id']}/cancel", user=user)
            assert cancelled.status == 200, cancelled.body

    movers = [threading.Thread(target=move) for _ in range(3)]
    for mover in movers:
        mover.start()
    try:
        moving = 0
        for _ in range(60):
            found = snapshot(either_api, user)
            held = 4 * len(found["tasks"])
            assert found["credits"] == {"available": 1_000 - held, "held": held}
            assert not {task["id"] for task in found["tasks"]} & {task["id"] for task in found["recent"]}
            moving += bool(held)
        assert moving
    finally:
        stop.set()
        for mover in movers:
            mover.join()


def test_every_event_that_a_snapshot_does_not_show_comes_after_its_cursor(either_api: Api) -> None:
    user = newcomer(either_api)
    either_api.generate(user=user)
    transaction, sequence = read_cursor(snapshot(either_api, user)["cursor"])
    task = either_api.generate(user=user).json["id"]
    number = "transaction_id::text::bigint" if either_api.place.environment.get("LONGTAKE_DATABASE_URL") else "0"
    places = either_api.sql(f"SELECT {number}, sequence FROM events WHERE subject = '{task}'")
    assert places
    assert all(place > (transaction, sequence) for place in places)


@pytest.fixture(scope="module")
def instant_sandbox() -> Iterator[SandboxProcess]:
    with running_sandbox(seconds={"image": 0.0, "video": 0.0}) as running:
        yield running


@pytest.fixture(params=["sqlite", "postgresql"])
def working_api(request: pytest.FixtureRequest, tmp_path: Path, instant_sandbox: SandboxProcess) -> Iterator[Api]:
    """A server with a worker, and a sandbox that is done at once."""
    databases: PostgresqlServer | None = None
    url = ""
    if request.param == "postgresql":
        databases = request.getfixturevalue("postgresql_server")
        url = databases.new_database()
    try:
        place = place_for(tmp_path, url, instant_sandbox)
        with place.server_here() as server:
            yield Api(place, server, instant_sandbox)
    finally:
        if databases is not None:
            databases.drop_database(url)


def test_completed_tasks_come_with_their_results_and_count_as_unread(working_api: Api) -> None:
    api = working_api
    api.grant("ada", 100)
    conversation = api.conversation()
    wanted = {"conversation_id": conversation}
    done = api.generate(wanted, headers={"Prefer": "wait=30"}).json
    assert done["status"] == "completed"
    found = snapshot(api, "ada")
    [recent] = found["recent"]
    assert (recent["id"], recent["status"], len(recent["results"])) == (done["id"], "completed", 1)
    assert recent["results"][0]["url"]
    assert (found["unread"], found["conversations"][0]["unread"]) == (1, 1)
    api.ask("POST", f"/v1/conversations/{conversation}/read", user="ada")
    assert snapshot(api, "ada")["unread"] == 0
