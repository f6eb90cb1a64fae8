"""Public keys of tokens, from a JSON Web Key Set that the issuer publishes and changes.

The set is fetched again when a token names an unknown key, at most once a minute, and when it is an hour old. A fetch
that fails keeps the old keys: the issuer's server may be down while its tokens are still valid.
"""

from __future__ import annotations

import asyncio
import base64
import math
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

import orjson
import structlog
from joserfc.errors import JoseError
from joserfc.jwk import ECKey, RSAKey

from longtake.errors import KeySetUnavailable, LongtakeError
from longtake.services.accounts.tokens import VerifyingKey

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from pathlib import Path

    from longtake.adapters.net import HttpClient
    from longtake.clock import Clock

log = structlog.get_logger(__name__)

LEAST_SECONDS_BETWEEN_FETCHES = 60.0
LONGEST_SECONDS_WITHOUT_FETCH = 3600.0
LEAST_RSA_BITS = 2048
MOST_KEYS = 100
MOST_BYTES = 500_000
FETCH_SECONDS = 10.0
#: The members of a public key of each type; everything else, above all a private part, is ignored.
PUBLIC_MEMBERS = {"RSA": ("kty", "n", "e"), "EC": ("kty", "crv", "x", "y")}


class PublishedKeys:
    """The key set as last fetched."""

    def __init__(self, fetch: Callable[[], Awaitable[bytes]], clock: Clock) -> None:
        self._fetch = fetch
        self._clock = clock
        self._keys: dict[str | None, VerifyingKey] = {}
        self._tried_at = -math.inf
        self._fetched_at = -math.inf
        self._one_at_a_time = asyncio.Lock()

    async def find(self, kid: str | None) -> VerifyingKey | None:
        """Return the key with this id; without an id, the only key, if there is exactly one."""
        found = self._known(kid)
        old = self._clock.monotonic() - self._fetched_at > LONGEST_SECONDS_WITHOUT_FETCH
        if found is None or old:
            await self._fetch_unless_just_tried()
            found = self._known(kid)
        if not self._keys:
            raise KeySetUnavailable(
                "The keys for checking tokens are not available now.", retry_after=LEAST_SECONDS_BETWEEN_FETCHES
            )
        return found

    async def load(self) -> None:
        """Fetch the set now; raises when that fails."""
        self._tried_at = self._clock.monotonic()
        self._keys = read_key_set(await self._fetch())
        self._fetched_at = self._clock.monotonic()

    def _known(self, kid: str | None) -> VerifyingKey | None:
        if kid is None:
            return next(iter(self._keys.values())) if len(self._keys) == 1 else None
        return self._keys.get(kid)

    async def _fetch_unless_just_tried(self) -> None:
        async with self._one_at_a_time:
            # The request that held the lock before may have just fetched the set.
            if self._clock.monotonic() - self._tried_at < LEAST_SECONDS_BETWEEN_FETCHES:
                return
            try:
                await self.load()
            except LongtakeError as error:
                log.warning("key set not available", action="authenticate", code=error.code)


def from_address(client: HttpClient, address: str) -> Callable[[], Awaitable[bytes]]:
    """Return a function that fetches the set from the address where its issuer publishes it."""

    async def fetch() -> bytes:
        answer = await client.request("GET", address, seconds=FETCH_SECONDS, most_bytes=MOST_BYTES)
        if answer.status != HTTPStatus.OK:
            raise KeySetUnavailable(f"The address in LONGTAKE_JWT_JWKS answers with status {answer.status}.")
        return answer.body

    return fetch


def from_file(path: Path) -> Callable[[], Awaitable[bytes]]:
    """Return a function that reads the set from a file."""

    async def fetch() -> bytes:
        try:
            return await asyncio.to_thread(path.read_bytes)
        except OSError as error:
            raise KeySetUnavailable(f"LONGTAKE_JWT_JWKS={path} cannot be read: {error.strerror}.") from None

    return fetch


def read_key_set(content: bytes) -> dict[str | None, VerifyingKey]:
    """Return the usable keys by id; raises KeySetUnavailable when there are none."""
    try:
        document = orjson.loads(content) if len(content) <= MOST_BYTES else None
    except orjson.JSONDecodeError:
        document = None
    members = document.get("keys") if isinstance(document, dict) else None
    if not isinstance(members, list):
        raise KeySetUnavailable("LONGTAKE_JWT_JWKS does not point to a JSON Web Key Set.")
    keys: dict[str | None, VerifyingKey] = {}
    for member in members[:MOST_KEYS]:
        key = _verifying_key(member)
        if key is not None:
            keys.setdefault(member["kid"] if isinstance(member.get("kid"), str) else None, key)
    if not keys:
        raise KeySetUnavailable("The key set of LONGTAKE_JWT_JWKS has no key for RS256 or ES256.")
    return keys


def _bits(modulus: str) -> int:
    return int.from_bytes(base64.urlsafe_b64decode(modulus + "==")).bit_length()


def _verifying_key(member: Any) -> VerifyingKey | None:
    """Return the key with the algorithm its type implies; None for other types, above all symmetric keys."""
    if not isinstance(member, dict) or member.get("use", "sig") != "sig":
        return None
    names = PUBLIC_MEMBERS.get(str(member.get("kty")), ())
    public: dict[str, str | list[str]] = {name: str(member.get(name)) for name in names}
    found: VerifyingKey | None = None
    try:
        match public:
            case {"kty": "RSA", "n": str(modulus)} if _bits(modulus) >= LEAST_RSA_BITS:
                found = VerifyingKey(RSAKey.import_key(public), "RS256")
            case {"kty": "EC", "crv": "P-256"}:
                found = VerifyingKey(ECKey.import_key(public), "ES256")
            case _:
                return None
    except (JoseError, ValueError, TypeError, KeyError):
        return None
    return found if member.get("alg", found.algorithm) == found.algorithm else None
