"""Conversations over HTTP."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest

from longtake.clock import new_id
from longtake.http.errors import InvalidCursor
from longtake.http.paging import read_cursor, write_cursor
from longtake.services.conversations.messages import finish_messages
from longtake.services.conversations.routes import build_routes
from tests.conversations.stage import ask, talk
from tests.web_client import Client

if TYPE_CHECKING:
    from collections.abc import Callable

    from longtake import Database

    As = Callable[..., Client]


@pytest.fixture
def client_of(database: Database) -> As:
    def client_of(user_id: str, *scopes: str) -> Client:
        return Client(build_routes(database), user_id, scopes=frozenset(scopes) or None)

    return client_of


async def test_a_conversation_from_its_beginning_to_its_reading(database: Database, client_of: As) -> None:
    ada = client_of("ada")
    made = await ada.post("/v1/conversations", {"title": "Lighthouses"})
    assert (made.status, made.json["title"], made.json["unread"]) == (201, "Lighthouses", 0)
    path = f"/v1/conversations/{made.json['id']}"
    said = await ada.post(f"{path}/messages", {"text": "More sea."})
    assert (said.status, said.json["role"]) == (201, "user")
    task = database.run_blocking(ask, made.json["id"])
    database.run_blocking(finish_messages, [task])
    shown = await ada.get(f"{path}/messages", limit=2)
    assert [(one["role"], one["state"], one["task_id"]) for one in shown.json["messages"]] == [
        ("assistant", "completed", task.task_id),
        ("user", "completed", task.task_id),
    ]
    assert shown.json["messages"][0]["data"]["cost"] == 3
    older = await ada.get(f"{path}/messages", before=shown.json["next"])
    assert [one["text"] for one in older.json["messages"]] == ["More sea."]
    assert (await ada.get(path)).json["unread"] == 1
    assert (await ada.post(f"{path}/read")).json["unread"] == 0
    renamed = await ada.patch(path, {"title": "Rocks"})
    assert (renamed.status, (await ada.get(path)).json["title"]) == (200, "Rocks")


async def test_pages_of_conversations_follow_each_other(database: Database, client_of: As) -> None:
    ids = {database.run_blocking(talk) for _ in range(3)}
    first = (await client_of("ada").get("/v1/conversations", limit=2)).json
    second = (await client_of("ada").get("/v1/conversations", before=first["next"])).json
    assert {one["id"] for one in first["conversations"] + second["conversations"]} == ids
    assert (len(second["conversations"]), second["next"]) == (1, None)
    for word in ("x", "1_2", "_", "1e3_" + new_id(), "9" * 40 + "_" + new_id()):
        refused = await client_of("ada").get("/v1/conversations", before=word)
        assert (refused.status, refused.json["code"]) == (422, "CURSOR_INVALID"), word


async def test_every_route_says_of_anothers_conversation_that_there_is_none(database: Database, client_of: As) -> None:
    bob = client_of("bob")
    for conversation in (database.run_blocking(talk), new_id()):
        path = f"/v1/conversations/{conversation}"
        answers = [
            await bob.get(path),
            await bob.get(f"{path}/messages"),
            await bob.patch(path, {"title": "mine"}),
            await bob.post(f"{path}/messages", {"text": "hello"}),
            await bob.post(f"{path}/read"),
        ]
        assert {(one.status, one.json["code"]) for one in answers} == {(404, "NOT_FOUND")}
    assert (await bob.get("/v1/conversations")).json == {"conversations": [], "next": None}


async def test_reading_and_changing_need_their_scopes(database: Database, client_of: As) -> None:
    path = f"/v1/conversations/{database.run_blocking(talk)}"
    reader, writer = client_of("ada", "read"), client_of("ada", "generate")
    for answer in (
        await reader.post("/v1/conversations", {}),
        await reader.patch(path, {"title": "x"}),
        await reader.post(f"{path}/messages", {"text": "x"}),
        await reader.post(f"{path}/read"),
        await writer.get("/v1/conversations"),
        await writer.get(path),
        await writer.get(f"{path}/messages"),
    ):
        assert (answer.status, answer.json["code"]) == (403, "FORBIDDEN")


async def test_wrong_bodies_are_refused(database: Database, client_of: As) -> None:
    ada = client_of("ada")
    path = f"/v1/conversations/{database.run_blocking(talk)}"
    titles: list[Any] = [{"title": "x" * 201}, {"title": "a\x00b"}, {"titel": "x"}, {"title": 5}]
    for content in titles:
        assert (await ada.post("/v1/conversations", content)).status == 422, content
    assert (await ada.post("/v1/conversations", [])).status == 400
    for content in ({"text": ""}, {"text": "x" * 10_001}, {"text": "\x1b"}, {"text": "x", "role": "assistant"}, {}):
        assert (await ada.post(f"{path}/messages", content)).status == 422, content
    assert (await ada.get(f"{path}/messages")).json["messages"] == []


def test_a_cursor_comes_back_as_it_was() -> None:
    for moment in (datetime(2026, 1, 1, 12, 0, 0, 123456, tzinfo=UTC), datetime(1969, 1, 1, 0, 0, 0, 1, tzinfo=UTC)):
        cursor = (moment, new_id())
        assert read_cursor(write_cursor(cursor)) == cursor
    with pytest.raises(InvalidCursor):
        read_cursor("")
