"""Messages of a conversation: the user's prompts, and answers that take their time.

An answer has a placeholder at once and becomes the finished message exactly once. All code that writes answers locks
their conversations first, in the order of their ids: so an answer seen under that lock stays the same until the commit,
and no two batches deadlock.
"""

import uuid
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import orjson
from sqlalchemy import Column, Table, Text, case, delete, func, insert, select, update

from longtake.clock import new_id
from longtake.db import Transaction
from longtake.db.dialects import NOW, SQLITE, Identifier, Instant, Json
from longtake.engine.events import append_event, append_events
from longtake.engine.queries import plain
from longtake.engine.queue_postgresql import arrays
from longtake.engine.tables import metadata
from longtake.services.conversations.store import PAGE_LIMIT, change_conversation, conversations, get_conversation
from longtake.validation import check_plain_text, clean_plain_text

messages = Table(
    "messages",
    metadata,
    Column("id", Identifier, primary_key=True),
    Column("conversation_id", Identifier, nullable=False),
    Column("user_id", Text, nullable=False),
    Column("role", Text, nullable=False),
    Column("state", Text, nullable=False),
    Column("text", Text, nullable=False),
    Column("task_id", Identifier),
    Column("data", Json),
    Column("created_at", Instant, nullable=False),
    Column("changed_at", Instant, nullable=False),
)

TEXT_LIMIT = 10_000
SHOWN = tuple(column for column in messages.c if column.name != "user_id")


def add_message(tx: Transaction, user_id: str, conversation_id: str, text: str) -> dict[str, Any]:
    """Add a message of the user. It does not make the conversation unread."""
    check_plain_text("text", text, most=TEXT_LIMIT, least=1)
    change_conversation(tx, user_id, conversation_id, changed_at=NOW)
    values = message_values(new_id(), conversation_id, user_id, "user", text=text)
    row = tx.execute(insert(messages).values(**values).returning(*SHOWN)).one()
    event = {"conversation_id": conversation_id, "role": "user", "state": "completed"}
    append_event(tx, "message.changed", subject=str(row.id), user_id=user_id, data=event)
    return plain(row)


def list_messages(
    tx: Transaction, user_id: str, conversation_id: str, before: str | None = None, limit: int = 50
) -> tuple[list[dict[str, Any]], str | None]:
    """Return a page of messages, newest first, and the cursor of the next page, if any."""
    get_conversation(tx, user_id, conversation_id)
    limit = min(limit, PAGE_LIMIT)
    query = select(*SHOWN).where(messages.c.conversation_id == conversation_id, messages.c.user_id == user_id)
    if before is not None:
        query = query.where(messages.c.id < before)
    rows = tx.execute(query.order_by(messages.c.id.desc()).limit(limit + 1)).all()
    cursor = str(rows[limit - 1].id) if len(rows) > limit else None
    return [plain(row) for row in rows[:limit]], cursor


def message_values(message_id: str, conversation_id: str, user_id: str, role: str, **rest: Any) -> dict[str, Any]:
    """Return the columns of a new message."""
    values = {"id": message_id, "conversation_id": conversation_id, "user_id": user_id, "role": role}
    defaults = {"state": "completed", "text": "", "task_id": None, "data": None}
    return {**values, **defaults, "created_at": NOW, "changed_at": NOW, **rest}


#: Answers that make a conversation unread. Users know about the tasks they cancelled.
COUNTED_STATES = ("completed", "failed")

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
    """The result of a task. `data` has its parameters and cost, but never a URL, which would expire."""

    task_id: str
    conversation_id: str
    user_id: str
    state: str
    text: str
    data: dict[str, Any]
    #: The placeholder's id. If the placeholder is gone, the message is inserted with this id.
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
    """Write the user's prompt and the placeholder of its answer. The conversation must be the user's."""
    check_plain_text("prompt", prompt, most=TEXT_LIMIT)
    change_conversation(tx, user_id, conversation_id, changed_at=NOW)
    prompt_id = _id_before(message_id)
    question = message_values(prompt_id, conversation_id, user_id, "user", text=prompt, task_id=task_id)
    answer = {"state": "placeholder", "task_id": task_id, "data": {**data, "task_id": task_id}}
    tx.execute(insert(messages).values(**question))
    tx.execute(insert(messages).values(**message_values(message_id, conversation_id, user_id, "assistant", **answer)))
    about = {"conversation_id": conversation_id, "task_id": task_id}
    append_events(
        tx,
        [
            ("message.changed", prompt_id, user_id, {**about, "role": "user", "state": "completed"}),
            ("message.changed", message_id, user_id, {**about, "role": "assistant", "state": "placeholder"}),
        ],
    )


def finish_messages(tx: Transaction, finished: Sequence[FinishedMessage]) -> dict[str, str]:
    """Fill in the placeholders of finished tasks; return the message of each task that this call finished.

    A message that is finished already stays as it is, so that a repeat neither changes it nor counts as unread. Tasks
    whose conversation was deleted are skipped.
    """
    owners = _lock_conversations(tx, sorted({one.conversation_id for one in finished}))
    ours = {one.task_id: one for one in finished if owners.get(one.conversation_id) == one.user_id}
    there = _answers(tx, list(ours))
    waiting = {task_id: there[task_id][0] for task_id in ours if there.get(task_id, ("", ""))[1] == "placeholder"}
    missing = {task_id: one.message_id or new_id() for task_id, one in ours.items() if task_id not in there}
    _fill(tx, ours, waiting)
    _insert_missing(tx, ours, missing)
    done = {**waiting, **missing}
    _notify(tx, [(ours[task_id], message_id) for task_id, message_id in done.items()])
    return done


def remove_messages_of_tasks(tx: Transaction, conversation_of: Mapping[str, str]) -> None:
    """Delete the messages of tasks, given the conversation of each task, and correct the unread counts."""
    if not conversation_of:
        return
    touched = sorted(set(conversation_of.values()))
    _lock_conversations(tx, touched)
    about = (messages.c.conversation_id.in_(touched), messages.c.task_id.in_(sorted(conversation_of)))
    tx.execute(delete(messages).where(*about))
    answers = (messages.c.conversation_id == conversations.c.id, messages.c.role == "assistant")
    left = select(func.count()).where(*answers, messages.c.state.in_(COUNTED_STATES)).scalar_subquery()
    fewer = case((conversations.c.unread > left, left), else_=conversations.c.unread)
    change = update(conversations).where(conversations.c.id.in_(touched)).values(unread=fewer)
    columns = (conversations.c.id, conversations.c.user_id, conversations.c.unread)
    rows = tx.execute(change.returning(*columns)).all()
    append_events(tx, [("conversation.changed", row.id, row.user_id, {"unread": row.unread}) for row in rows])


def _lock_conversations(tx: Transaction, ids: Sequence[str]) -> dict[str, str]:
    """Lock conversations first and in the order of their ids, as everywhere; return the owner of each."""
    if not ids:
        return {}
    query = select(conversations.c.id, conversations.c.user_id).where(conversations.c.id.in_(ids))
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


def _insert_missing(tx: Transaction, ours: dict[str, FinishedMessage], missing: dict[str, str]) -> None:
    for task_id, message_id in missing.items():
        one = ours[task_id]
        rest = {"state": one.state, "text": _text(one), "task_id": task_id, "data": _data(one)}
        values = message_values(message_id, one.conversation_id, one.user_id, "assistant", **rest)
        tx.execute(insert(messages).values(**values))


def _notify(tx: Transaction, done: Sequence[tuple[FinishedMessage, str]]) -> None:
    """Count the unread answers of each conversation, and write one event per message and per conversation."""
    if not done:
        return
    unread: dict[tuple[str, str], int] = defaultdict(int)
    for one, _message_id in done:
        unread[one.conversation_id, one.user_id] += one.state in COUNTED_STATES
    rows = [(key, more) for (key, _user), more in unread.items()]
    if tx.dialect == SQLITE:
        tx.sql_many(COUNT_SQLITE, rows)
    else:
        tx.sql(COUNT_POSTGRESQL, arrays(rows))
    counts = select(conversations.c.id, conversations.c.unread)
    counted = tx.execute(counts.where(conversations.c.id.in_([key for key, _user in unread])))
    now_unread = {str(row.id): row.unread for row in counted}
    events = [("message.changed", key, one.user_id, _event(one)) for one, key in done]
    events += [("conversation.changed", key, user, {"unread": now_unread[key]}) for key, user in unread]
    append_events(tx, events)


def _text(one: FinishedMessage) -> str:
    """Return the text cleaned for storage: a provider's text must not keep a task from ending."""
    return clean_plain_text(one.text, most=TEXT_LIMIT)


def _data(one: FinishedMessage) -> dict[str, Any]:
    return {**one.data, "task_id": one.task_id}


def _event(one: FinishedMessage) -> dict[str, Any]:
    return {
        "conversation_id": one.conversation_id, "task_id": one.task_id, "role": "assistant", "state": one.state,
    }  # fmt: skip


def _id_before(message_id: str) -> str:
    """Return the id that sorts right before the answer's, so that lists show the prompt before it."""
    return str(uuid.UUID(int=uuid.UUID(message_id).int - 1))
