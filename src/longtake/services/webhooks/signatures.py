"""Secrets of endpoints, and the signatures made with them, as Standard Webhooks specifies."""

import base64
import hmac
import os
from collections.abc import Iterable
from typing import Any

from sqlalchemy import select, update

from longtake.db import Transaction
from longtake.services.vault.vault import Vault, wrong_key
from longtake.services.webhooks.endpoints import webhook_endpoints

PREFIX = "whsec_"
SECRET_BYTES = 32


def new_secret() -> str:
    """Return a secret of 256 random bits."""
    return PREFIX + base64.b64encode(os.urandom(SECRET_BYTES)).decode()


def sealed_name(endpoint_id: str) -> str:
    """Return the name under which the vault seals an endpoint's secret. It opens in no other endpoint's row."""
    return f"webhooks/{endpoint_id}"


def seal_secret(vault: Vault, endpoint_id: str, secret: str) -> str:
    """Return the secret sealed, as the endpoint's row holds it."""
    return vault.seal(sealed_name(endpoint_id), secret)


def signed_headers(secrets: Iterable[str], delivery_id: str, timestamp: int, body: bytes) -> dict[str, str]:
    """Return the headers that prove the body is ours: one signature for each valid secret."""
    message_id = f"msg_{delivery_id}"
    signatures = [_signature(secret, f"{message_id}.{timestamp}.".encode() + body) for secret in secrets]
    return {
        "webhook-id": message_id,
        "webhook-timestamp": str(timestamp),
        "webhook-signature": " ".join(signatures),
    }


def _signature(secret: str, content: bytes) -> str:
    key = base64.b64decode(secret.removeprefix(PREFIX))
    return "v1," + base64.b64encode(hmac.digest(key, content, "sha256")).decode()


def reseal_secrets(tx: Transaction, vault: Vault) -> list[str]:
    """Seal all secrets with the vault's first key, so that older keys can be dropped; return the names it changed.

    All or nothing.
    """
    resealed = []
    # Locked: a secret that its user rotates meanwhile must not be overwritten with the previous one.
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
    if (secret := vault.open(name, sealed)) is None:
        raise wrong_key([name])
    return vault.seal(name, secret)
