"""From a token's claims to a caller. Pure: the signature was checked before, the time is passed in."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from joserfc.errors import ExpiredTokenError, JoseError
from joserfc.jwt import JWTClaimsRegistry

from longtake.errors import Unauthorized
from longtake.services.accounts.caller import SCOPES_OF_ROLE, Caller, is_user_id

if TYPE_CHECKING:
    from datetime import datetime

    from joserfc.jwt import ClaimsOption

    from longtake.services.accounts.own_tokens import Expected

LEEWAY_SECONDS = 60


def not_valid() -> Unauthorized:
    """Say no without saying why: whoever forges tokens must not learn what to try next."""
    return Unauthorized("The token or key is not valid.")


def caller_of(claims: Mapping[str, Any], expected: Expected, now: datetime) -> Caller:
    """Return the caller, or raise Unauthorized."""
    _check(claims, expected, now)
    user_id, role = claims["sub"], claims.get("role", "user")
    if not is_user_id(user_id) or not isinstance(role, str) or role not in SCOPES_OF_ROLE:
        raise not_valid()
    scopes = SCOPES_OF_ROLE[role]
    for name in ("scope", "scopes"):
        if name in claims:
            scopes &= _words(claims[name])
    return Caller(user_id, role, scopes)


def _check(claims: Mapping[str, Any], expected: Expected, now: datetime) -> None:
    wanted: dict[str, ClaimsOption] = {"exp": {"essential": True}, "sub": {"essential": True}}
    if expected.issuer:
        wanted["iss"] = {"essential": True, "value": expected.issuer}
    if expected.audience:
        wanted["aud"] = {"essential": True, "value": expected.audience}
    registry = JWTClaimsRegistry(now=int(now.timestamp()), leeway=LEEWAY_SECONDS, **wanted)
    try:
        registry.validate(dict(claims))
    except ExpiredTokenError:
        raise Unauthorized("The token has expired.", hint="Get a new one where you got this one.") from None
    except JoseError:
        raise not_valid() from None


def _words(value: object) -> frozenset[str]:
    if isinstance(value, str):
        return frozenset(value.split())
    if isinstance(value, list) and all(isinstance(word, str) for word in value):
        return frozenset(value)
    raise not_valid()
