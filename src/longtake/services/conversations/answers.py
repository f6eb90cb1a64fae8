"""Answers that take their time: a placeholder at once, the finished message exactly once.

Whatever writes answers locks their conversation first, conversations in the order of their ids; so what is seen of an
answer under that lock stays so until the commit, and no two batches wait for each other.
"""

from __future__ import annotations

import uuid
from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import orjson
from sqlalchemy import insert, select

from longtake.clock import new_id
from longtake.db.dialects import NOW, SQLITE
from longtake.engine.events import append_events
from longtake.engine.queue_postgresql import arrays
from longtake.plain_text import check_plain_text, clean_plain_text
from longtake.services.conversations.messages import TEXT_LIMIT, message_values
from longtake.services.conversations.store import change_conversation
from longtake.services.conversations.tables import conversations, messages

if TYPE_CHECKING:
    from collections.abc import Sequence

    from longtake.db import Transaction

#: A user who has cancelled a task knows that it ended.
WORTH_A_LOOK = ("completed", "failed")

FILL_POSTGRESQL = """
UPDATE messages SET state = finished.state, text = finished.text, data = finished.data::jsonb,
    changed_at = longtake_now()
FROM unnest(%s::uuid[], %s::text[], %s::text[], %s::text[]) AS finished(id, state, text, data)
WHERE messages.id = finished.id AND messages.state = 'placeholder'
"""

FILL_SQLITE = """
UPDATE messages SET state = ?2, text = ?3, data = ?4, changed_at = longtake_now()
WHERE id = ?1 AND state = 'placeholder'
"""

COUNT_POSTGRESQL = """
UPDATE conversations SET unread = unread + seen.more, changed_at = longtake_now()
FROM unnest(%s::uuid[], %s::int[]) AS seen(id, more) WHERE conversations.id = seen.id
"""

COUNT_SQLITE = "UPDATE conversations SET unread = unread + ?2, changed_at = longtake_now() WHERE id = ?1"


@dataclass(frozen=True, slots=True)
class FinishedMessage:
    """What came of a task. `data` carries its parameters and cost, and never an address, which would expire."""

    task_id: str
    conversation_id: str
    user_id: str
    state: str
    text: str
    data: dict[str, Any]
    #: The placeholder's id; if the placeholder is gone, the message is written anew in its place.
    message_id: str | None = None


def open_placeholder(
    tx: Transaction,
    *,
    conversation_id: str,
    user_id: str,
    task_id: str,
    prompt: str,
    message_id: str,
    data: dict[str, Any],
) -> None:
    """Write the user's prompt and, after it, the placeholder of the answer; the conversation must be the user's."""
    check_plain_text("prompt", prompt, most=TEXT_LIMIT)
    change_conversation(tx, user_id, conversation_id, changed_at=NOW)
    asked_id = _id_before(message_id)
    asked = message_values(asked_id, conversation_id, user_id, "user", text=prompt, task_id=task_id)
    answer = {"state": "placeholder", "task_id": task_id, "data": {**data, "task_id": task_id}}
    tx.execute(insert(messages).values(**asked))
    tx.execute(insert(messages).values(**message_values(message_id, conversation_id, user_id, "assistant", **answer)))
    told = {"conversation_id": conversation_id, "task_id": task_id}
    append_events(
        tx,
        [
            ("message.changed", asked_id, user_id, {**told, "role": "user", "state": "completed"}),
            ("message.changed", message_id, user_id, {**told, "role": "assistant", "state": "placeholder"}),
        ],
    )


def finish_messages(tx: Transaction, finished: Sequence[FinishedMessage]) -> dict[str, str]:
    """Turn placeholders into what came of their tasks; return the message of each task that this call finished.

    A task whose message is finished already is left alone, so a repeat neither changes it nor counts as unread. Where
    the conversation is gone there is nobody to tell.
    """
    owners = _lock_conversations(tx, {one.conversation_id for one in finished})
    ours = {one.task_id: one for one in finished if owners.get(one.conversation_id) == one.user_id}
    there = _answers(tx, list(ours))
    waiting = {task_id: there[task_id][0] for task_id in ours if there.get(task_id, ("", ""))[1] == "placeholder"}
    missing = {task_id: one.message_id or new_id() for task_id, one in ours.items() if task_id not in there}
    _fill(tx, ours, waiting)
    _write_anew(tx, ours, missing)
    done = {**waiting, **missing}
    _tell(tx, [(ours[task_id], message_id) for task_id, message_id in done.items()])
    return done


def _lock_conversations(tx: Transaction, ids: set[str]) -> dict[str, str]:
    if not ids:
        return {}
    query = select(conversations.c.id, conversations.c.user_id).where(conversations.c.id.in_(sorted(ids)))
    return {str(row.id): row.user_id for row in tx.execute(query.order_by(conversations.c.id).with_for_update())}


def _answers(tx: Transaction, task_ids: list[str]) -> dict[str, tuple[str, str]]:
    if not task_ids:
        return {}
    query = select(messages.c.task_id, messages.c.id, messages.c.state)
    rows = tx.execute(query.where(messages.c.task_id.in_(task_ids), messages.c.role == "assistant"))
    return {str(row.task_id): (str(row.id), row.state) for row in rows}


def _fill(tx: Transaction, ours: dict[str, FinishedMessage], waiting: dict[str, str]) -> None:
    rows = [
        (message_id, ours[task_id].state, _text(ours[task_id]), orjson.dumps(_data(ours[task_id])).decode())
        for task_id, message_id in waiting.items()
    ]
    if rows and tx.dialect == SQLITE:
        tx.sql_many(FILL_SQLITE, rows)
    elif rows:
        tx.sql(FILL_POSTGRESQL, arrays(rows))


def _write_anew(tx: Transaction, ours: dict[str, FinishedMessage], missing: dict[str, str]) -> None:
    for task_id, message_id in missing.items():
        one = ours[task_id]
        rest = {"state": one.state, "text": _text(one), "task_id": task_id, "data": _data(one)}
        values = message_values(message_id, one.conversation_id, one.user_id, "assistant", **rest)
        tx.execute(insert(messages).values(**values))


def _tell(tx: Transaction, done: Sequence[tuple[FinishedMessage, str]]) -> None:
    """Count what is new in each conversation, and tell of each message and each conversation once."""
    if not done:
        return
    unread: dict[tuple[str, str], int] = defaultdict(int)
    for one, _message_id in done:
        unread[one.conversation_id, one.user_id] += one.state in WORTH_A_LOOK
    rows = [(key, more) for (key, _user), more in unread.items()]
    if tx.dialect == SQLITE:
        tx.sql_many(COUNT_SQLITE, rows)
    else:
        tx.sql(COUNT_POSTGRESQL, arrays(rows))
    counts = select(conversations.c.id, conversations.c.unread)
    counted = tx.execute(counts.where(conversations.c.id.in_([key for key, _user in unread])))
    now_unread = {str(row.id): row.unread for row in counted}
    told = [("message.changed", key, one.user_id, _event(one)) for one, key in done]
    told += [("conversation.changed", key, user, {"unread": now_unread[key]}) for key, user in unread]
    append_events(tx, told)


def _text(one: FinishedMessage) -> str:
    """Return the text as it can be kept: words of a provider must not keep a task from ending."""
    return clean_plain_text(one.text, most=TEXT_LIMIT)


def _data(one: FinishedMessage) -> dict[str, Any]:
    return {**one.data, "task_id": one.task_id}


def _event(one: FinishedMessage) -> dict[str, Any]:
    return {
        "conversation_id": one.conversation_id, "task_id": one.task_id, "role": "assistant", "state": one.state,
    }  # fmt: skip


def _id_before(message_id: str) -> str:
    """Return an id that sorts right before the answer's: whoever lists messages sees the question first."""
    return str(uuid.UUID(int=uuid.UUID(message_id).int - 1))
