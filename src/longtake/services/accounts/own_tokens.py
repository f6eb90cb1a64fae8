"""Making a token where the secret is our own, with nothing but the standard library.

A command that only needs a token of this machine would otherwise wait for joserfc, which loads every kind of key. It
still checks each of these tokens: `tokens` verifies them on the server.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from datetime import datetime, timedelta

    from longtake.settings import Settings

HS256 = "HS256"


@dataclass(frozen=True, slots=True)
class Expected:
    """What a token's issuer and audience have to be; empty for anything."""

    issuer: str = ""
    audience: str = ""


def mint(secret: bytes, expected: Expected, *, user_id: str, role: str, now: datetime, lifetime: timedelta) -> str:
    """Return a token as `Tokens` with the same secret takes it."""
    claims: dict[str, Any] = {
        "sub": user_id,
        "role": role,
        "iat": int(now.timestamp()),
        "exp": int((now + lifetime).timestamp()),
    }
    if expected.issuer:
        claims["iss"] = expected.issuer
    if expected.audience:
        claims["aud"] = expected.audience
    signed = f"{_encoded({'alg': HS256, 'typ': 'JWT'})}.{_encoded(claims)}"
    return f"{signed}.{_base64url(hmac.digest(secret, signed.encode('ascii'), hashlib.sha256))}"


def token_secret(settings: Settings, own_secret: Callable[[], bytes]) -> bytes:
    """Return what HS256 tokens are signed with: the configured secret, or this machine's own."""
    configured = settings.jwt_secret.get_secret_value()
    return configured.encode() if configured else own_secret()


def _encoded(part: Mapping[str, Any]) -> str:
    return _base64url(json.dumps(part, separators=(",", ":")).encode())


def _base64url(content: bytes) -> str:
    return base64.urlsafe_b64encode(content).rstrip(b"=").decode("ascii")
