"""Encrypted secrets in the database. In clear text they exist only in memory, never in a row, a log line or an error.

Several keys make rotation possible: the first seals, all of them open. A secret that none of them opens is never
overwritten, because its key may come back.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import contextlib
import hashlib
import os
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import structlog
from pydantic import SecretStr
from sqlalchemy import Column, Table, Text, delete, select, update
from sqlalchemy.dialects import postgresql, sqlite

from longtake.db import Database, Transaction
from longtake.db.dialects import NOW, SQLITE, Instant
from longtake.engine.queries import plain
from longtake.engine.tables import metadata
from longtake.errors import LongtakeError, NotFound
from longtake.services.vault.errors import VaultKeyWrong
from longtake.services.vault.root_secret import RootSecret, derive_key
from longtake.settings import Settings
from longtake.settings.checks import master_keys

PURPOSE = "vault"
NONCE_BYTES = 12
ID_CHARACTERS = 16
#: After this long, every process knows about a key that was set, changed or removed.
REFRESH_SECONDS = 5.0

secrets = Table(
    "secrets",
    metadata,
    Column("name", Text, primary_key=True),
    Column("key_id", Text, nullable=False),
    Column("sealed", Text, nullable=False),
    Column("created_at", Instant, nullable=False),
    Column("changed_at", Instant, nullable=False),
)

log = structlog.get_logger(__name__)


class SealingKey:
    """One key of the vault: AES-256-GCM with a fresh nonce per value, bound to the name of the secret.

    The id tells keys apart and reveals nothing else about them.
    """

    def __init__(self, key: bytes) -> None:
        # Imported here: most commands never seal or open a secret.
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM  # noqa: PLC0415

        self._cipher = AESGCM(key)
        self.id = hashlib.sha256(b"longtake vault key id\0" + key).hexdigest()[:ID_CHARACTERS]

    def __repr__(self) -> str:
        return f"SealingKey({self.id})"

    def seal(self, name: str, value: str) -> str:
        nonce = os.urandom(NONCE_BYTES)
        return base64.b64encode(nonce + self._cipher.encrypt(nonce, value.encode(), _bound_to(name))).decode("ascii")

    def open(self, name: str, sealed: str) -> str | None:
        """Return the value; None when it was sealed with another key or another name, or changed since."""
        from cryptography.exceptions import InvalidTag  # noqa: PLC0415 - as above

        try:
            content = base64.b64decode(sealed, validate=True)
            return self._cipher.decrypt(content[:NONCE_BYTES], content[NONCE_BYTES:], _bound_to(name)).decode()
        except (InvalidTag, ValueError, binascii.Error):
            return None


def _bound_to(name: str) -> bytes:
    return b"longtake secret\0" + name.encode()


class Vault:
    """Stores and reads secrets, in the caller's transaction."""

    def __init__(self, keys: Callable[[], list[bytes]]) -> None:
        self._load = keys

    @classmethod
    def of(cls, settings: Settings, root: RootSecret) -> Vault:
        """Return a vault that seals with the first master key, else with a key of the root; both can open."""

        def keys() -> list[bytes]:
            configured = [derive_key(key, PURPOSE) for key in master_keys(settings.master_key)]
            if configured and not root.exists():
                return configured
            return [*configured, root.derive(PURPOSE)]

        return cls(keys)

    def put(self, tx: Transaction, name: str, value: str) -> None:
        """Store a secret under its name, replacing any there."""
        # With a wrong key, this would overwrite secrets that the right key could still open.
        self.check(tx)
        key = self._keys[0]
        first = (sqlite if tx.dialect == SQLITE else postgresql).insert(secrets)
        again = {"key_id": first.excluded.key_id, "sealed": first.excluded.sealed, "changed_at": NOW}
        values = {"name": name, "key_id": key.id, "sealed": key.seal(name, value), "created_at": NOW, "changed_at": NOW}
        tx.execute(first.values(**values).on_conflict_do_update(index_elements=["name"], set_=again))

    def get(self, tx: Transaction, name: str) -> str | None:
        """Return the secret with this name, or None; raises VaultKeyWrong when it cannot be opened."""
        row = tx.execute(select(secrets).where(secrets.c.name == name)).first()
        if row is None:
            return None
        value = self.open(row.name, row.sealed)
        if value is None:
            raise wrong_key([name])
        return value

    def get_all(self, tx: Transaction) -> dict[str, str | None]:
        """Return all secrets by name; None stands for one that cannot be opened."""
        rows = tx.execute(select(secrets.c.name, secrets.c.sealed).order_by(secrets.c.name)).all()
        return {row.name: self.open(row.name, row.sealed) for row in rows}

    def names(self, tx: Transaction) -> list[dict[str, Any]]:
        columns = (secrets.c.name, secrets.c.key_id, secrets.c.created_at, secrets.c.changed_at)
        return [plain(row) for row in tx.execute(select(*columns).order_by(secrets.c.name))]

    def remove(self, tx: Transaction, name: str) -> None:
        """Delete a secret, even one that cannot be opened."""
        if tx.execute(delete(secrets).where(secrets.c.name == name)).rowcount == 0:
            raise NotFound(f"There is no secret {name!r}.", hint="`longtake secrets list` shows all secrets.")

    def rotate(self, tx: Transaction) -> list[str]:
        """Seal everything with the first key; return the names it changed. All or nothing."""
        key = self._keys[0]
        rows = tx.execute(select(secrets).where(secrets.c.key_id != key.id).order_by(secrets.c.name)).all()
        opened = {row.name: self.open(row.name, row.sealed) for row in rows}
        if wrong := [name for name, value in opened.items() if value is None]:
            raise wrong_key(wrong)
        for name, value in opened.items():
            change = {"key_id": key.id, "sealed": key.seal(name, value or ""), "changed_at": NOW}
            tx.execute(update(secrets).where(secrets.c.name == name).values(**change))
        return list(opened)

    def check(self, tx: Transaction) -> None:
        """Raise VaultKeyWrong if any secret cannot be opened. Reads only."""
        if wrong := [name for name, value in self.get_all(tx).items() if value is None]:
            raise wrong_key(wrong)

    def seal(self, name: str, value: str) -> str:
        """Return a secret sealed with the first key, for a row in another table. It opens only under the same name."""
        return self._keys[0].seal(name, value)

    def open(self, name: str, sealed: str) -> str | None:
        """Return the value sealed under this name; None when no key opens it."""
        # There are few keys, so each is tried. The key id in the row is for people and for rotation.
        return next((value for key in self._keys if (value := key.open(name, sealed)) is not None), None)

    def is_current(self, name: str, sealed: str) -> bool:
        """Return whether the first key sealed this, so that older keys are not needed for it."""
        return self._keys[0].open(name, sealed) is not None

    @cached_property
    def _keys(self) -> list[SealingKey]:
        return [SealingKey(key) for key in self._load()]


def wrong_key(names: list[str]) -> VaultKeyWrong:
    """Return the error for stored secrets that no key opens."""
    return VaultKeyWrong(f"These stored secrets cannot be opened with this key: {', '.join(names)}.", secrets=names)


@dataclass(eq=False, repr=False, slots=True)
class KeySource:
    """Returns keys from memory at once; `kept_fresh` reads the vault every few seconds."""

    settings: Settings
    vault: Vault
    database: Database
    on_change: Callable[[], Awaitable[object]] | None = None
    _stored: dict[str, str] = field(default_factory=dict, init=False)
    #: What `on_change` was last told of.
    _told: dict[str, str] = field(default_factory=dict, init=False)
    _unreadable: frozenset[str] = field(default=frozenset(), init=False)

    def __call__(self, name: str) -> str:
        """Return the key, or an empty string."""
        configured = getattr(self.settings, name, None)
        value = configured.get_secret_value() if isinstance(configured, SecretStr) else ""
        return value or self._stored.get(name, "")

    async def refresh(self) -> None:
        """Read the vault now. A secret that cannot be opened does not affect the others."""
        found = await self.database.read(self.vault.get_all)
        self._stored = {name: value for name, value in found.items() if value is not None}
        if self.on_change is not None and self._stored != self._told:
            await self.on_change()
            self._told = self._stored
        unreadable = frozenset(found) - frozenset(self._stored)
        if unreadable - self._unreadable:
            log.error("stored secrets cannot be opened with this key", action="vault", names=sorted(unreadable))
        self._unreadable = unreadable

    @contextlib.asynccontextmanager
    async def kept_fresh(self, seconds: float = REFRESH_SECONDS) -> AsyncIterator[None]:
        """Read the vault now, and again every few seconds until the block ends."""
        await self.refresh()
        task = asyncio.create_task(self._refresh_forever(seconds))
        try:
            yield
        finally:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task

    async def _refresh_forever(self, seconds: float) -> None:
        while True:
            await asyncio.sleep(seconds)
            try:
                await self.refresh()
            except LongtakeError as error:
                # The keys read last stay in use.
                log.warning("vault not readable", action="vault", code=error.code)
