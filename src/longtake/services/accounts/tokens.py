"""Verifies tokens with the configured kind of key. `own_tokens` makes those signed with our own secret.

The key decides which algorithm is allowed, never the token: its header is only read for a `kid`, which is compared and
nothing else. Addresses and keys in a header (`jku`, `x5u`, `jwk`) are ignored.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import structlog
from joserfc import jws, jwt
from joserfc.errors import ExpiredTokenError, JoseError
from joserfc.jwk import Key, OctKey
from joserfc.jwt import JWTClaimsRegistry

from longtake.errors import Unauthorized
from longtake.services.accounts.caller import SCOPES_OF_ROLE, Caller, is_user_id
from longtake.services.accounts.own_tokens import HS256

if TYPE_CHECKING:
    from datetime import datetime

    from joserfc.jwt import ClaimsOption

    from longtake.clock import Clock
    from longtake.services.accounts.own_tokens import ExpectedClaims

log = structlog.get_logger(__name__)

LONGEST_TOKEN = 8192
MOST_KNOWN = 1_000
PARTS_OF_A_TOKEN = 3


@dataclass(frozen=True, slots=True)
class VerifyingKey:
    """A key and the only algorithm it may be used with."""

    key: Key
    algorithm: str


class VerifyingKeys(Protocol):
    """The source of keys for tokens."""

    async def find(self, kid: str | None) -> VerifyingKey | None:
        """Return the key with this id, or None; without an id, the only key, if there is exactly one."""

    async def load(self) -> None:
        """Load the keys now; raises when that fails."""


class SharedSecret:
    """One secret that both signs and verifies. The `kid` is ignored."""

    def __init__(self, secret: bytes) -> None:
        self._key = VerifyingKey(OctKey.import_key(secret), HS256)

    async def find(self, _kid: str | None) -> VerifyingKey:
        return self._key

    async def load(self) -> None:
        """Do nothing: the secret is already known."""


class _Registry(jws.JWSRegistry):
    """Accepts headers with unknown members; they are not used, so they do no harm."""

    max_header_length = 4096
    max_payload_length = LONGEST_TOKEN


@dataclass(frozen=True, slots=True)
class _VerifiedToken:
    """A token with a valid signature, and the key that verified it."""

    kid: str | None
    key: VerifyingKey
    claims: dict[str, Any]


class Tokens:
    """Verifies tokens."""

    def __init__(self, keys: VerifyingKeys, expected: ExpectedClaims, clock: Clock) -> None:
        self._keys = keys
        self._expected = expected
        self._clock = clock
        #: A page sends the same token with every request. A replaced key makes its tokens unknown again.
        self._known: dict[str, _VerifiedToken] = {}

    async def load(self) -> None:
        """Load the keys."""
        await self._keys.load()

    async def caller(self, token: str) -> Caller:
        """Return the caller whose token it is; raises Unauthorized."""
        known = self._known.get(token)
        kid = _key_id(token) if known is None else known.kid
        found = await self._keys.find(kid)
        if found is None:
            raise not_valid()
        if known is None or known.key is not found:
            known = _VerifiedToken(kid, found, _verified(token, found))
            if len(self._known) >= MOST_KNOWN:
                self._known.clear()
            self._known[token] = known
        # Times, issuer and role are checked every time.
        return caller_from(known.claims, self._expected, self._clock.now())


def _key_id(token: str) -> str | None:
    if len(token) > LONGEST_TOKEN or token.count(".") != PARTS_OF_A_TOKEN - 1 or not token.isascii():
        raise not_valid()
    try:
        header = jws.extract_compact(token.encode("ascii"), registry=_Registry(strict_check_header=False)).headers()
    except Exception as error:  # noqa: BLE001 - a forged header can make the parser raise anything
        log.debug("a token could not be read", action="authenticate", error=type(error).__name__)
        raise not_valid() from None
    kid = header.get("kid")
    if kid is not None and not isinstance(kid, str):
        raise not_valid()
    return kid


def _verified(token: str, found: VerifyingKey) -> dict[str, Any]:
    registry = _Registry(algorithms=[found.algorithm], strict_check_header=False)
    try:
        return jwt.decode(token, found.key, [found.algorithm], registry).claims
    except Exception as error:  # noqa: BLE001 - as above
        log.debug("a token was refused", action="authenticate", error=type(error).__name__)
        raise not_valid() from None


LEEWAY_SECONDS = 60


def not_valid() -> Unauthorized:
    """Return the error without a reason: a forger must not learn what to try next."""
    return Unauthorized("The token or key is not valid.")


def caller_from(claims: Mapping[str, Any], expected: ExpectedClaims, now: datetime) -> Caller:
    """Return the caller that verified claims name; raises Unauthorized. Pure: the time is passed in."""
    _check_claims(claims, expected, now)
    user_id, role = claims["sub"], claims.get("role", "user")
    if not is_user_id(user_id) or not isinstance(role, str) or role not in SCOPES_OF_ROLE:
        raise not_valid()
    scopes = SCOPES_OF_ROLE[role]
    for name in ("scope", "scopes"):
        if name in claims:
            scopes &= _words(claims[name])
    return Caller(user_id, role, scopes)


def _check_claims(claims: Mapping[str, Any], expected: ExpectedClaims, now: datetime) -> None:
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
