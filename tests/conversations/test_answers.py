"""Placeholders and what becomes of them: exactly once, whatever is repeated, deleted or done at the same time."""

from __future__ import annotations

import asyncio
import itertools
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from sqlalchemy import text

from longtake.clock import new_id
from longtake.errors import InvalidText, NotFound
from longtake.services.conversations.messages import FinishedMessage, finish_messages, list_messages
from longtake.services.conversations.store import get_conversation, list_conversations, mark_read
from tests.conversations.stage import ask, talk, told

if TYPE_CHECKING:
    from longtake import Database, Transaction
    from tests.databases import StoppedClock


def messages(database: Database, conversation: str, user_id: str = "ada") -> list[dict[str, Any]]:
    """Return all messages, oldest first."""
    return database.run_blocking(list_messages, user_id, conversation)[0][::-1]


def unread(database: Database, conversation: str) -> int:
    return int(database.run_blocking(get_conversation, "ada", conversation)["unread"])


def remove(tx: Transaction, table: str, which: str | None) -> None:
    tx.execute(text(f"DELETE FROM {table} WHERE id = :id"), {"id": which})


def test_a_placeholder_comes_after_the_question_and_is_not_unread(database: Database) -> None:
    conversation = database.run_blocking(talk)
    task = database.run_blocking(ask, conversation)
    question, placeholder = messages(database, conversation)
    assert (question["role"], question["state"], question["text"]) == ("user", "completed", "A lighthouse")
    assert question["task_id"] == placeholder["task_id"] == task.task_id
    assert (placeholder["id"], placeholder["role"], placeholder["state"]) == (
        task.message_id,
        "assistant",
        "placeholder",
    )
    assert placeholder["data"] == {"model": "m", "cost": 3, "task_id": task.task_id}
    assert unread(database, conversation) == 0
    states = [data["state"] for kind, _subject, _user, data in database.run_blocking(told) if kind == "message.changed"]
    assert states == ["completed", "placeholder"]


def test_a_placeholder_needs_a_conversation_of_the_user(database: Database) -> None:
    conversation = database.run_blocking(talk)
    for which, user in ((conversation, "bob"), (new_id(), "ada")):
        with pytest.raises(NotFound):
            database.run_blocking(ask, which, user)
    with pytest.raises(InvalidText):
        database.run_blocking(ask, conversation, "ada", "a\x00b")
    assert messages(database, conversation) == []


def test_the_finished_message_takes_the_placeholders_place_once(
    stopped_database: Database, clock: StoppedClock
) -> None:
    database = stopped_database
    conversation = database.run_blocking(talk)
    task = database.run_blocking(ask, conversation)
    clock.advance(60)
    later = database.run_blocking(talk)
    clock.advance(60)
    assert database.run_blocking(finish_messages, [task]) == {task.task_id: task.message_id}
    _question, answer = messages(database, conversation)
    assert (answer["id"], answer["state"], answer["text"]) == (task.message_id, "completed", "Here it is.")
    assert answer["data"] == {"model": "m", "cost": 3, "seconds": 4.5, "task_id": task.task_id}
    assert answer["changed_at"] > answer["created_at"]
    assert unread(database, conversation) == 1
    listed, _next = database.run_blocking(list_conversations, "ada")
    assert [one["id"] for one in listed] == [conversation, later]

    before = database.run_blocking(told)
    other = replace(task, state="failed", text="No, it failed.")
    assert database.run_blocking(finish_messages, [task]) == {}
    assert database.run_blocking(finish_messages, [other]) == {}
    assert messages(database, conversation)[1] == answer
    assert unread(database, conversation) == 1
    assert database.run_blocking(told) == before


def test_a_batch_counts_for_each_conversation_what_is_worth_a_look(database: Database) -> None:
    first, second = database.run_blocking(talk), database.run_blocking(talk)
    tasks = [database.run_blocking(ask, first if number < 3 else second) for number in range(5)]
    states = itertools.cycle(("completed", "failed", "cancelled"))
    ends = [replace(task, state=next(states)) for task in tasks]
    assert len(database.run_blocking(finish_messages, ends)) == 5
    assert (unread(database, first), unread(database, second)) == (2, 2)
    shown = [one["state"] for one in messages(database, first) if one["role"] == "assistant"]
    assert shown == ["completed", "failed", "cancelled"]
    changed = [event for event in database.run_blocking(told) if event[0] == "conversation.changed"][-2:]
    assert {(subject, data["unread"]) for _type, subject, _user, data in changed} == {(first, 2), (second, 2)}
    assert database.run_blocking(mark_read, "ada", first)["unread"] == 0
    assert unread(database, second) == 2
    assert database.run_blocking(finish_messages, ends) == {}
    assert unread(database, first) == 0


def test_reading_does_not_move_a_conversation_in_the_list(stopped_database: Database, clock: StoppedClock) -> None:
    conversation = stopped_database.run_blocking(talk)
    task = stopped_database.run_blocking(ask, conversation)
    stopped_database.run_blocking(finish_messages, [task])
    changed = stopped_database.run_blocking(get_conversation, "ada", conversation)["changed_at"]
    clock.advance(60)
    read = stopped_database.run_blocking(mark_read, "ada", conversation)
    assert (read["unread"], read["changed_at"]) == (0, changed)
    before = stopped_database.run_blocking(told)
    stopped_database.run_blocking(mark_read, "ada", conversation)
    assert stopped_database.run_blocking(told) == before


def test_a_placeholder_that_was_deleted_is_written_anew(database: Database) -> None:
    conversation = database.run_blocking(talk)
    gone, nameless = database.run_blocking(ask, conversation), database.run_blocking(ask, conversation)
    for task in (gone, nameless):
        database.run_blocking(remove, "messages", task.message_id)
    nameless = replace(nameless, message_id=None)
    written = database.run_blocking(finish_messages, [gone, nameless])
    assert written[gone.task_id] == gone.message_id
    assert database.run_blocking(finish_messages, [gone, nameless]) == {}
    answers = {one["id"]: one["text"] for one in messages(database, conversation) if one["role"] == "assistant"}
    assert answers == dict.fromkeys(written.values(), "Here it is.")
    assert unread(database, conversation) == 2


def test_where_the_conversation_is_gone_or_somebody_elses_nothing_is_written(database: Database) -> None:
    kept, gone = database.run_blocking(talk), database.run_blocking(talk)
    good, lost = database.run_blocking(ask, kept), database.run_blocking(ask, gone)
    database.run_blocking(remove, "conversations", gone)
    strange = FinishedMessage(new_id(), kept, "bob", "completed", "for bob", {}, new_id())
    assert list(database.run_blocking(finish_messages, [lost, good, strange])) == [good.task_id]
    assert [one["text"] for one in messages(database, kept)] == ["A lighthouse", "Here it is."]
    assert unread(database, kept) == 1
    assert database.run_blocking(finish_messages, [lost]) == {}
    assert database.run_blocking(finish_messages, []) == {}


def test_what_a_provider_says_is_kept_as_far_as_it_can_be(database: Database) -> None:
    conversation = database.run_blocking(talk)
    task = database.run_blocking(ask, conversation)
    strange = replace(task, state="failed", text="bad\x00\x1b[2J\ud800" + "x" * 20_000)
    database.run_blocking(finish_messages, [strange])
    kept = messages(database, conversation)[1]["text"]
    assert (len(kept), kept[:8]) == (10_000, "bad\ufffd\ufffd[2J")


async def test_of_many_who_finish_the_same_messages_each_is_finished_once(database: Database) -> None:
    """A deadlock would be found by PostgreSQL and the function run again: so runs are counted."""
    conversations = [database.run_blocking(talk) for _ in range(6)]
    tasks = [database.run_blocking(ask, conversation) for conversation in conversations for _ in range(4)]
    runs = itertools.count()

    def finish(tx: Transaction, some: list[FinishedMessage]) -> dict[str, str]:
        next(runs)
        return finish_messages(tx, some)

    batches = [tasks, tasks[::-1], tasks[::2] + tasks[1::2], tasks[12:] + tasks[:12]]
    ends = await asyncio.gather(*(database.run(finish, batch) for batch in batches))
    finished = [task_id for end in ends for task_id in end]
    assert sorted(finished) == sorted(task.task_id for task in tasks)
    assert [unread(database, conversation) for conversation in conversations] == [4] * 6
    assert next(runs) == len(batches)


async def test_of_those_who_write_a_deleted_placeholder_anew_one_does(database: Database) -> None:
    conversation = database.run_blocking(talk)
    task = database.run_blocking(ask, conversation)
    database.run_blocking(remove, "messages", task.message_id)
    nameless = replace(task, message_id=None)
    ends = await asyncio.gather(*(database.run(finish_messages, [nameless]) for _ in range(8)))
    assert sum(len(end) for end in ends) == 1
    assert unread(database, conversation) == 1
    assert len(messages(database, conversation)) == 2
