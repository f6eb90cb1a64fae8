"""Secrets in the database, sealed. In clear they exist in memory only: never in a row, a log line or an error.

Several keys make rotation possible: the first seals, all of them open. A secret that none of them opens is never
overwritten: the key may come back.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sqlalchemy import Column, Table, Text, delete, select, update
from sqlalchemy.dialects import postgresql, sqlite

from longtake.db.dialects import NOW, SQLITE, Instant
from longtake.engine.queries import plain
from longtake.engine.tables import metadata
from longtake.errors import NotFound, VaultKeyWrong
from longtake.services.vault.root import RootSecret, derive_key
from longtake.settings.secrets import master_keys

if TYPE_CHECKING:
    from collections.abc import Callable

    from longtake.db import Transaction
    from longtake.services.vault.seal import SealingKey
    from longtake.settings import Settings

PURPOSE = "vault"

secrets = Table(
    "secrets",
    metadata,
    Column("name", Text, primary_key=True),
    Column("key_id", Text, nullable=False),
    Column("sealed", Text, nullable=False),
    Column("created_at", Instant, nullable=False),
    Column("changed_at", Instant, nullable=False),
)


class Vault:
    """Puts secrets away and takes them out, in the caller's transaction."""

    def __init__(self, keys: Callable[[], list[bytes]]) -> None:
        self._load = keys
        self._loaded: list[SealingKey] = []

    @classmethod
    def of(cls, settings: Settings, root: RootSecret) -> Vault:
        """Seal with the first master key, or the root's if there is none; what the root sealed opens either way."""

        def keys() -> list[bytes]:
            configured = [derive_key(key, PURPOSE) for key in master_keys(settings.master_key)]
            if configured and not root.exists():
                return configured
            return [*configured, root.derive(PURPOSE)]

        return cls(keys)

    def put(self, tx: Transaction, name: str, value: str) -> None:
        """Keep a secret under its name, instead of what was there."""
        # With a wrong key at hand this would make a second kind of secrets, and overwrite the first.
        self.check(tx)
        key = self._keys()[0]
        first = (sqlite if tx.dialect == SQLITE else postgresql).insert(secrets)
        again = {"key_id": first.excluded.key_id, "sealed": first.excluded.sealed, "changed_at": NOW}
        values = {"name": name, "key_id": key.id, "sealed": key.seal(name, value), "created_at": NOW, "changed_at": NOW}
        tx.execute(first.values(**values).on_conflict_do_update(index_elements=["name"], set_=again))

    def get(self, tx: Transaction, name: str) -> str | None:
        """Return the secret, None when there is none of this name; VaultKeyWrong when it cannot be opened."""
        row = tx.execute(select(secrets).where(secrets.c.name == name)).first()
        if row is None:
            return None
        value = self.open(row.name, row.sealed)
        if value is None:
            raise _wrong([name])
        return value

    def get_all(self, tx: Transaction) -> dict[str, str | None]:
        """Return all secrets by name; None stands for one that cannot be opened."""
        rows = tx.execute(select(secrets.c.name, secrets.c.sealed).order_by(secrets.c.name)).all()
        return {row.name: self.open(row.name, row.sealed) for row in rows}

    def names(self, tx: Transaction) -> list[dict[str, Any]]:
        """Return which secrets there are and what is known about them, except what they are."""
        columns = (secrets.c.name, secrets.c.key_id, secrets.c.created_at, secrets.c.changed_at)
        return [plain(row) for row in tx.execute(select(*columns).order_by(secrets.c.name))]

    def remove(self, tx: Transaction, name: str) -> None:
        """Forget a secret, also one that cannot be opened any more."""
        if tx.execute(delete(secrets).where(secrets.c.name == name)).rowcount == 0:
            raise NotFound(f"There is no secret {name!r}.", hint="`longtake secrets list` shows those there are.")

    def rotate(self, tx: Transaction) -> list[str]:
        """Seal everything with the first key; return the names of what another had sealed. All or nothing."""
        key = self._keys()[0]
        rows = tx.execute(select(secrets).where(secrets.c.key_id != key.id).order_by(secrets.c.name)).all()
        opened = {row.name: self.open(row.name, row.sealed) for row in rows}
        if wrong := [name for name, value in opened.items() if value is None]:
            raise _wrong(wrong)
        for name, value in opened.items():
            change = {"key_id": key.id, "sealed": key.seal(name, value or ""), "changed_at": NOW}
            tx.execute(update(secrets).where(secrets.c.name == name).values(**change))
        return list(opened)

    def check(self, tx: Transaction) -> None:
        """Raise VaultKeyWrong if any secret cannot be opened. Reads only."""
        if wrong := [name for name, value in self.get_all(tx).items() if value is None]:
            raise _wrong(wrong)

    def seal(self, name: str, value: str) -> str:
        """Return a secret sealed with the first key, for a row that is not the vault's own; only its name opens it."""
        return self._keys()[0].seal(name, value)

    def open(self, name: str, sealed: str) -> str | None:
        """Return what was sealed under this name; None when no key at hand opens it."""
        # Few keys and few secrets: each is simply tried. The id in the row is for people, and for rotation.
        return next((value for key in self._keys() if (value := key.open(name, sealed)) is not None), None)

    def is_current(self, name: str, sealed: str) -> bool:
        """Say whether the first key sealed this, so that the others are not needed for it."""
        return self._keys()[0].open(name, sealed) is not None

    def _keys(self) -> list[SealingKey]:
        if not self._loaded:
            # Here: the ciphers are needed only where a secret is sealed or opened.
            from longtake.services.vault.seal import SealingKey  # noqa: PLC0415

            self._loaded = [SealingKey(key) for key in self._load()]
        return self._loaded


def _wrong(names: list[str]) -> VaultKeyWrong:
    which = ", ".join(names)
    return VaultKeyWrong(f"Stored secrets that cannot be opened with this key: {which}.", secrets=names)
