"""Conversations and messages as their users see them, on both databases."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from longtake.clock import new_id
from longtake.errors import InvalidText, NotFound
from longtake.services.conversations.messages import add_message, list_messages
from longtake.services.conversations.store import (
    create_conversation,
    get_conversation,
    list_conversations,
    mark_read,
    rename_conversation,
)
from tests.conversations.stage import talk, told

if TYPE_CHECKING:
    from longtake import Database
    from longtake.http.paging import Cursor
    from tests.databases import StoppedClock


def test_a_new_conversation_is_empty_and_read(database: Database) -> None:
    made = database.run_blocking(create_conversation, "ada", "Lighthouses")
    assert (made["title"], made["unread"]) == ("Lighthouses", 0)
    assert database.run_blocking(get_conversation, "ada", made["id"]) == made
    assert database.run_blocking(list_messages, "ada", made["id"]) == ([], None)
    assert database.run_blocking(told) == [("conversation.changed", made["id"], "ada", {"unread": 0})]


def test_the_last_changed_comes_first(stopped_database: Database, clock: StoppedClock) -> None:
    database = stopped_database
    ids = []
    for _ in range(3):
        clock.advance(1)
        ids.append(database.run_blocking(talk))
    clock.advance(1)
    database.run_blocking(add_message, "ada", ids[0], "more sea")
    clock.advance(1)
    database.run_blocking(rename_conversation, "ada", ids[1], "Rocks")
    listed, _next = database.run_blocking(list_conversations, "ada")
    assert [one["id"] for one in listed] == [ids[1], ids[0], ids[2]]
    assert listed[0]["title"] == "Rocks"


def test_pages_of_conversations_that_changed_at_once_have_no_gap(stopped_database: Database) -> None:
    ids = {stopped_database.run_blocking(talk) for _ in range(7)}
    stopped_database.run_blocking(talk, "bob")
    seen: list[str] = []
    cursor: Cursor | None = None
    sizes = []
    while True:
        page, cursor = stopped_database.run_blocking(list_conversations, "ada", cursor, 3)
        seen += [one["id"] for one in page]
        sizes.append(len(page))
        if cursor is None:
            break
    assert (set(seen), len(seen), sizes) == (ids, 7, [3, 3, 1])


def test_messages_are_listed_newest_first_page_by_page(database: Database) -> None:
    conversation = database.run_blocking(talk)
    for number in range(5):
        database.run_blocking(add_message, "ada", conversation, f"message {number}")
    newest, cursor = database.run_blocking(list_messages, "ada", conversation, None, 2)
    older, end = database.run_blocking(list_messages, "ada", conversation, cursor, 3)
    assert [one["text"] for one in newest + older] == [f"message {number}" for number in (4, 3, 2, 1, 0)]
    assert (cursor, end) == (newest[-1]["id"], None)
    assert {(one["role"], one["state"], one["task_id"]) for one in newest} == {("user", "completed", None)}


def test_ones_own_words_make_nothing_unread(database: Database) -> None:
    conversation = database.run_blocking(talk)
    said = database.run_blocking(add_message, "ada", conversation, "line one\n\tline two ✨")
    assert said["text"] == "line one\n\tline two ✨"
    assert database.run_blocking(get_conversation, "ada", conversation)["unread"] == 0
    assert database.run_blocking(told)[-1] == (
        "message.changed",
        said["id"],
        "ada",
        {"conversation_id": conversation, "role": "user", "state": "completed"},
    )


def test_what_is_somebody_elses_does_not_exist(database: Database) -> None:
    conversation = database.run_blocking(talk)
    before = database.run_blocking(told)
    for user, which in (("bob", conversation), ("ada", new_id())):
        attempts: list[tuple[Any, ...]] = [
            (get_conversation,),
            (list_messages,),
            (mark_read,),
            (rename_conversation, "mine now"),
            (add_message, "hello"),
        ]
        for function, *rest in attempts:
            with pytest.raises(NotFound):
                database.run_blocking(function, user, which, *rest)
    assert database.run_blocking(list_conversations, "bob") == ([], None)
    assert database.run_blocking(told) == before


def test_texts_that_cannot_be_kept_are_refused(database: Database) -> None:
    conversation = database.run_blocking(talk)
    for title in ("x" * 201, "a\x00b", "\x1b[2J", "\ud800"):
        with pytest.raises(InvalidText, match="title"):
            database.run_blocking(create_conversation, "ada", title)
        with pytest.raises(InvalidText, match="title"):
            database.run_blocking(rename_conversation, "ada", conversation, title)
    for text in ("", "x" * 10_001, "a\x00b", "\x7f"):
        with pytest.raises(InvalidText, match="text"):
            database.run_blocking(add_message, "ada", conversation, text)
    database.run_blocking(rename_conversation, "ada", conversation, "x" * 200)
    database.run_blocking(add_message, "ada", conversation, "x" * 10_000)
