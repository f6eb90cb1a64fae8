"""API keys for machines, valid until revoked or expired. Only a digest is stored, never the key."""

import hashlib
import secrets
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Column, Row, Table, Text, func, insert, or_, select, update

from longtake.clock import new_id
from longtake.db import Transaction
from longtake.db.dialects import NOW, Identifier, Instant, Json, later, seconds_until
from longtake.engine.events import append_event
from longtake.engine.queries import plain
from longtake.engine.tables import metadata
from longtake.errors import NotFound, StateConflict

PREFIX = "lt_"
RANDOM_BYTES = 30
SHOWN_CHARACTERS = 10
MOST_KEYS = 100
LIST_LIMIT = 500
#: `last_used_at` is written at most this often: a write per request would cost more than it is worth.
USED_SECONDS = 60.0
DAY = 86_400.0

api_keys = Table(
    "api_keys",
    metadata,
    Column("id", Identifier, primary_key=True),
    Column("user_id", Text, nullable=False),
    Column("name", Text, nullable=False),
    Column("prefix", Text, nullable=False),
    Column("digest", Text, nullable=False),
    Column("role", Text, nullable=False),
    Column("scopes", Json, nullable=False),
    Column("created_at", Instant, nullable=False),
    Column("expires_at", Instant),
    Column("last_used_at", Instant),
    Column("revoked_at", Instant),
)
SHOWN = [api_keys.c[name] for name in (
    "id", "user_id", "name", "prefix", "role", "scopes", "created_at", "expires_at", "last_used_at",
)]  # fmt: skip


@dataclass(frozen=True, slots=True)
class NewKey:
    """A new key, made before the transaction that writes it. `key` is shown once and then forgotten."""

    id: str
    key: str


def make_key() -> NewKey:
    """Return a key of 240 random bits."""
    return NewKey(new_id(), PREFIX + secrets.token_urlsafe(RANDOM_BYTES))


def digest(key: str) -> str:
    """Return the digest stored of a key. A slow hash would add nothing: the key has 240 random bits."""
    return hashlib.sha256(key.encode()).hexdigest()


def create_key(
    tx: Transaction, new: NewKey, user_id: str, name: str, role: str, scopes: Iterable[str], days: int | None = None
) -> dict[str, Any]:
    """Write the key's digest; return the row as its owner sees it."""
    live = select(func.count()).where(api_keys.c.user_id == user_id, api_keys.c.revoked_at.is_(None))
    if tx.execute(live).scalar_one() >= MOST_KEYS:
        raise StateConflict(f"This user already has {MOST_KEYS} keys.", hint="Revoke keys that are no longer used.")
    values: dict[str, Any] = {
        "id": new.id,
        "user_id": user_id,
        "name": name,
        "prefix": new.key[:SHOWN_CHARACTERS],
        "digest": digest(new.key),
        "role": role,
        "scopes": sorted(scopes),
        "created_at": NOW,
        "expires_at": None if days is None else later(days * DAY),
    }
    row = tx.execute(insert(api_keys).values(**values).returning(*SHOWN)).one()
    append_event(tx, "key.created", subject=new.id, user_id=user_id, data={"name": name, "scopes": values["scopes"]})
    return plain(row)


def find_key(tx: Transaction, key_digest: str) -> Row[Any] | None:
    """Return the key with this digest unless revoked or expired; `stale` means its last use needs writing."""
    stale = or_(api_keys.c.last_used_at.is_(None), api_keys.c.last_used_at < later(-USED_SECONDS))
    columns = (api_keys.c.id, api_keys.c.user_id, api_keys.c.role, api_keys.c.scopes, stale.label("stale"))
    valid = (api_keys.c.digest == key_digest, api_keys.c.revoked_at.is_(None))
    in_time = or_(api_keys.c.expires_at.is_(None), seconds_until(api_keys.c.expires_at) > 0)
    return tx.execute(select(*columns).where(*valid, in_time)).first()


def note_use(tx: Transaction, key_id: str) -> None:
    """Record that the key was used now."""
    tx.execute(update(api_keys).where(api_keys.c.id == key_id).values(last_used_at=NOW))


def list_keys(tx: Transaction, user_id: str | None = None) -> list[dict[str, Any]]:
    """Return the keys that are not revoked, newest first: one user's, or everyone's."""
    query = select(*SHOWN).where(api_keys.c.revoked_at.is_(None))
    if user_id is not None:
        query = query.where(api_keys.c.user_id == user_id)
    return [plain(row) for row in tx.execute(query.order_by(api_keys.c.id.desc()).limit(LIST_LIMIT))]


def revoke_key(tx: Transaction, key_id: str, user_id: str | None = None) -> None:
    """Revoke a key: one of this user's, or any without a user. Revoking it again does nothing."""
    which = [api_keys.c.id == key_id] + ([] if user_id is None else [api_keys.c.user_id == user_id])
    row = tx.execute(select(api_keys.c.user_id, api_keys.c.revoked_at).where(*which)).first()
    if row is None:
        raise NotFound(f"There is no key {key_id!r}.")
    if row.revoked_at is None:
        tx.execute(update(api_keys).where(*which).values(revoked_at=NOW))
        append_event(tx, "key.revoked", subject=key_id, user_id=row.user_id)
