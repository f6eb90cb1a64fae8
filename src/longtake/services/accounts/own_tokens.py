"""Makes tokens signed with our own secret, using only the standard library.

A command that needs such a token would otherwise wait for joserfc, which loads every kind of key. On the server,
`tokens` verifies these tokens with joserfc like any other.
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
class ExpectedClaims:
    """The required issuer and audience of a token; empty accepts any."""

    issuer: str = ""
    audience: str = ""


def mint(
    secret: bytes, expected: ExpectedClaims, *, user_id: str, role: str, now: datetime, lifetime: timedelta
) -> str:
    """Return a token that `Tokens` with the same secret accepts."""
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
    """Return the secret that signs HS256 tokens: the configured one, or this machine's own."""
    configured = settings.jwt_secret.get_secret_value()
    return configured.encode() if configured else own_secret()


def _encoded(part: Mapping[str, Any]) -> str:
    return _base64url(json.dumps(part, separators=(",", ":")).encode())


def _base64url(content: bytes) -> str:
    return base64.urlsafe_b64encode(content).rstrip(b"=").decode("ascii")
