"""Endpoints' secrets under a new key of the vault, so that the old one can be thrown away."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sqlalchemy import select, update

from longtake.errors import VaultKeyWrong
from longtake.services.webhooks.signatures import sealed_name
from longtake.services.webhooks.tables import webhook_endpoints

if TYPE_CHECKING:
    from longtake.db import Transaction
    from longtake.services.vault.vault import Vault


def reseal_secrets(tx: Transaction, vault: Vault) -> list[str]:
    """Seal with the first key what another had sealed; return the names. All or nothing."""
    resealed = []
    # Locked: a secret that its user changes meanwhile must not be written over with the one before.
    held_rows = select(webhook_endpoints).order_by(webhook_endpoints.c.id).with_for_update(key_share=True)
    for row in tx.execute(held_rows).all():
        name = sealed_name(row.id)
        held = {column: getattr(row, column) for column in ("secret", "previous_secret")}
        old = {column: sealed for column, sealed in held.items() if sealed and not vault.is_current(name, sealed)}
        if old:
            values = {column: _reseal(vault, name, sealed) for column, sealed in old.items()}
            tx.execute(update(webhook_endpoints).where(webhook_endpoints.c.id == row.id).values(**values))
            resealed.append(name)
    return resealed


def _reseal(vault: Vault, name: str, sealed: Any) -> str:
    secret = vault.open(name, sealed)
    if secret is None:
        raise VaultKeyWrong(f"Stored secrets that cannot be opened with this key: {name}.", secrets=[name])
    return vault.seal(name, secret)
