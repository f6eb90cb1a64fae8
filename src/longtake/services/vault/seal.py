"""Sealing: AES-256-GCM with a fresh nonce for every value. What one name sealed, another does not open."""

from __future__ import annotations

import base64
import binascii
import hashlib
import os

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

NONCE_BYTES = 12
ID_CHARACTERS = 16


class SealingKey:
    """One key of the vault. Its id tells keys apart and nothing else about them."""

    def __init__(self, key: bytes) -> None:
        self._cipher = AESGCM(key)
        self.id = hashlib.sha256(b"longtake vault key id\0" + key).hexdigest()[:ID_CHARACTERS]

    def __repr__(self) -> str:
        return f"SealingKey({self.id})"

    def seal(self, name: str, value: str) -> str:
        """Return the value as text that nobody can read or change without the key."""
        nonce = os.urandom(NONCE_BYTES)
        return base64.b64encode(nonce + self._cipher.encrypt(nonce, value.encode(), _bound_to(name))).decode("ascii")

    def open(self, name: str, sealed: str) -> str | None:
        """Return the value; None when it was sealed with another key or under another name, or was changed since."""
        try:
            content = base64.b64decode(sealed, validate=True)
            return self._cipher.decrypt(content[:NONCE_BYTES], content[NONCE_BYTES:], _bound_to(name)).decode()
        except (InvalidTag, ValueError, binascii.Error):
            return None


def _bound_to(name: str) -> bytes:
    return b"longtake secret\0" + name.encode()
