"""Tokens: checking a signature with the one kind of key that is configured. `minting` makes those of our own secret.

Which algorithm is allowed follows from the key, never from the token: its header is only asked for a `kid`, which is
compared and nothing else. Addresses and keys in a header (`jku`, `x5u`, `jwk`) are never looked at.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import structlog
from joserfc import jws, jwt
from joserfc.jwk import Key, OctKey

from longtake.services.accounts.claims import caller_of, not_valid
from longtake.services.accounts.own_tokens import HS256

if TYPE_CHECKING:
    from longtake.clock import Clock
    from longtake.services.accounts.caller import Caller
    from longtake.services.accounts.own_tokens import Expected

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
    """Where the key for a token comes from."""

    async def find(self, kid: str | None) -> VerifyingKey | None:
        """Return the key of this id, None when there is none; a token without an id fits where there is one key."""

    async def load(self) -> None:
        """Make ready what can be; raises when it cannot."""


class SharedSecret:
    """The secret that signs is the secret that checks. A `kid` says nothing here."""

    def __init__(self, secret: bytes) -> None:
        self._key = VerifyingKey(OctKey.import_key(secret), HS256)

    async def find(self, _kid: str | None) -> VerifyingKey:
        return self._key

    async def load(self) -> None:
        """There is nothing to load."""


class _Registry(jws.JWSRegistry):
    """Takes headers with members nobody here knows: they are not used, so they do no harm."""

    max_header_length = 4096
    max_payload_length = LONGEST_TOKEN


@dataclass(frozen=True, slots=True)
class _Known:
    """A token whose signature was found good, and by which key."""

    kid: str | None
    key: VerifyingKey
    claims: dict[str, Any]


class Tokens:
    """Checks tokens."""

    def __init__(self, keys: VerifyingKeys, expected: Expected, clock: Clock) -> None:
        self._keys = keys
        self._expected = expected
        self._clock = clock
        #: A page sends the same token with every request; a key that was replaced makes it unknown again.
        self._known: dict[str, _Known] = {}

    async def load(self) -> None:
        """Have the keys ready."""
        await self._keys.load()

    async def caller(self, token: str) -> Caller:
        """Return whose token it is, or raise Unauthorized."""
        known = self._known.get(token)
        kid = _key_id(token) if known is None else known.kid
        found = await self._keys.find(kid)
        if found is None:
            raise not_valid()
        if known is None or known.key is not found:
            known = _Known(kid, found, _verified(token, found))
            if len(self._known) >= MOST_KNOWN:
                self._known.clear()
            self._known[token] = known
        # Times, issuer and role are looked at every time.
        return caller_of(known.claims, self._expected, self._clock.now())


def _key_id(token: str) -> str | None:
    if len(token) > LONGEST_TOKEN or token.count(".") != PARTS_OF_A_TOKEN - 1 or not token.isascii():
        raise not_valid()
    try:
        header = jws.extract_compact(token.encode("ascii"), registry=_Registry(strict_check_header=False)).headers()
    except Exception as error:  # noqa: BLE001 - whatever a forged header makes a parser stumble over
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
