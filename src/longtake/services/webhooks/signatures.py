"""Secrets of endpoints and what is signed with them, as Standard Webhooks says."""

from __future__ import annotations

import base64
import hmac
import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from longtake.services.vault.vault import Vault

PREFIX = "whsec_"
SECRET_BYTES = 32


def new_secret() -> str:
    """Return a secret nobody can guess: 256 random bits."""
    return PREFIX + base64.b64encode(os.urandom(SECRET_BYTES)).decode()


def sealed_name(endpoint_id: str) -> str:
    """Return the name under which the vault seals an endpoint's secret: no other endpoint's row opens it."""
    return f"webhooks/{endpoint_id}"


def seal_secret(vault: Vault, endpoint_id: str, secret: str) -> str:
    """Return the secret as the endpoint's row holds it."""
    return vault.seal(sealed_name(endpoint_id), secret)


def signed_headers(secrets: Iterable[str], delivery_id: str, timestamp: int, body: bytes) -> dict[str, str]:
    """Return the headers by which a receiver knows that the body is ours: a signature for each secret that counts."""
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
