"""Idempotency keys: a repeated request gets the first answer again, and nothing is done twice.

The answer is stored in the transaction that does the work, so that neither exists without the other. Refusals are not
stored: they wrote nothing, and the caller may fix the request and use the same key.
"""

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
from longtake.http.errors import IdempotencyKeyInUse, IdempotencyKeyReused, InvalidIdempotencyKey

KEY_LIMIT = 255
#: For at least so long the same key gets the first answer; the documents say 48 hours.
KEPT_SECONDS = 48 * 3600.0

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
    """The answer to a request, new or repeated."""

    status: int
    body: dict[str, Any]
    replayed: bool = False

    def headers(self, location: str) -> dict[str, str]:
        """Return the headers of the answer: where the new thing is, and whether this answer was given before."""
        return {"Location": location} | ({"Idempotent-Replayed": "true"} if self.replayed else {})


def keyed(user_id: str, route: str, key: str | None, body: Any) -> Keyed | None:
    """Return the validated key; None when the caller sent none."""
    if key is None:
        return None
    if not 0 < len(key) <= KEY_LIMIT or not key.isprintable() or not key.isascii():
        raise InvalidIdempotencyKey(f"An Idempotency-Key must have 1 to {KEY_LIMIT} visible ASCII characters.")
    digest = hashlib.sha256(orjson.dumps(body, option=orjson.OPT_SORT_KEYS)).hexdigest()
    return Keyed(user_id, route, key, digest)


def once(tx: Transaction, wanted: Keyed | None, work: Callable[[], Answer]) -> Answer:
    """Do the work and return its answer; for a repeated request, return the stored answer."""
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
    """Delete keys older than we promise to keep them; return how many."""
    old = delete(idempotency_keys).where(idempotency_keys.c.created_at < later(-KEPT_SECONDS))
    return tx.execute(old).rowcount


def _lock(tx: Transaction, wanted: Keyed) -> None:
    """Allow one request at a time with this key. SQLite has one writer at a time anyway."""
    if tx.dialect != POSTGRESQL:
        return
    name = f"{wanted.route} {wanted.key} {wanted.user_id}"
    [(free,)] = tx.sql("SELECT pg_try_advisory_xact_lock(hashtextextended(%s, 0))", (name,))
    if not free:
        raise IdempotencyKeyInUse("The first request with this Idempotency-Key is still running.")
