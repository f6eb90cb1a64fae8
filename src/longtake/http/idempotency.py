"""Idempotency keys: the same request again gets the first answer again, and nothing is done twice.

The answer is kept in the transaction that does the work, so there is no moment in which one exists without the other.
Refusals are not kept: they wrote nothing, and the caller may mend the request and use the same key.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import orjson
from sqlalchemy import Column, SmallInteger, Table, Text, bindparam, delete, insert, select

from longtake.db import Transaction
from longtake.db.dialects import NOW, POSTGRESQL, Instant, Json, later
from longtake.db.prepared import Prepared
from longtake.engine.tables import metadata
from longtake.errors import IdempotencyKeyInUse, IdempotencyKeyReused, InvalidIdempotencyKey

KEY_LIMIT = 255
#: Promised are 24 hours; a day more for clocks and weekends costs little.
KEPT_SECONDS = 2 * 86_400.0

idempotency_keys = Table(
    "idempotency_keys",
    metadata,
    Column("user_id", Text, primary_key=True),
    Column("route", Text, primary_key=True),
    Column("key", Text, primary_key=True),
    Column("fingerprint", Text, nullable=False),
    Column("status", SmallInteger, nullable=False),
    Column("answer", Json, nullable=False),
    Column("created_at", Instant, nullable=False),
)

_NAMES = ("user_id", "route", "key")
FIND = Prepared(
    select(idempotency_keys.c.fingerprint, idempotency_keys.c.status, idempotency_keys.c.answer).where(
        *(idempotency_keys.c[name] == bindparam(name) for name in _NAMES)
    )
)
KEEP = Prepared(
    insert(idempotency_keys).values(
        **{name: bindparam(name) for name in (*_NAMES, "fingerprint", "status", "answer")}, created_at=NOW
    )
)


@dataclass(frozen=True, slots=True)
class Keyed:
    """A caller's key for one route, and the fingerprint of what was sent with it."""

    user_id: str
    route: str
    key: str
    fingerprint: str


@dataclass(frozen=True, slots=True)
class Answer:
    """What was, or is, answered."""

    status: int
    body: dict[str, Any]
    replayed: bool = False


def keyed(user_id: str, route: str, key: str | None, body: Any) -> Keyed | None:
    """Return the checked key; None when the caller gave none."""
    if key is None:
        return None
    if not 0 < len(key) <= KEY_LIMIT or not key.isprintable() or not key.isascii():
        raise InvalidIdempotencyKey(f"An Idempotency-Key has 1 to {KEY_LIMIT} visible ASCII characters.")
    digest = hashlib.sha256(orjson.dumps(body, option=orjson.OPT_SORT_KEYS)).hexdigest()
    return Keyed(user_id, route, key, digest)


def once(tx: Transaction, wanted: Keyed | None, work: Callable[[], Answer]) -> Answer:
    """Do the work, or give the answer that was given when it was done."""
    if wanted is None:
        return work()
    _lock(tx, wanted)
    names = {"user_id": wanted.user_id, "route": wanted.route, "key": wanted.key}
    for known in tx.run(FIND, **names):
        if known.fingerprint != wanted.fingerprint:
            raise IdempotencyKeyReused("This Idempotency-Key was used with another request.")
        return Answer(known.status, known.answer, replayed=True)
    answer = work()
    tx.run(KEEP, **names, fingerprint=wanted.fingerprint, status=answer.status, answer=answer.body)
    return answer


def forget_old_keys(tx: Transaction) -> int:
    """Remove keys nobody can rely on any more."""
    old = delete(idempotency_keys).where(idempotency_keys.c.created_at < later(-KEPT_SECONDS))
    return tx.execute(old).rowcount


def _lock(tx: Transaction, wanted: Keyed) -> None:
    """Let one request with this key at a time pass. SQLite's one writer is a lock already."""
    if tx.dialect != POSTGRESQL:
        return
    name = f"{wanted.route} {wanted.key} {wanted.user_id}"
    [(free,)] = tx.sql("SELECT pg_try_advisory_xact_lock(hashtextextended(%s, 0))", (name,))
    if not free:
        raise IdempotencyKeyInUse("The first request with this Idempotency-Key is still being worked on.")
