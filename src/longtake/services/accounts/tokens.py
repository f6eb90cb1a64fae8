"""Verifies tokens, with a secret or with an issuer's public keys. `own_tokens` makes those signed with our own secret.

The key decides which algorithm is allowed, never the token: its header is only read for a `kid`, which is compared and
nothing else. Addresses and keys in a header (`jku`, `x5u`, `jwk`) are ignored.
"""

import asyncio
import base64
import math
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from http import HTTPStatus
from pathlib import Path
from typing import Any

import orjson
import structlog
from joserfc import jws, jwt
from joserfc.errors import ExpiredTokenError, JoseError
from joserfc.jwk import ECKey, Key, OctKey, RSAKey
from joserfc.jwt import ClaimsOption, JWTClaimsRegistry

from longtake.adapters.net import HttpClient
from longtake.clock import Clock
from longtake.errors import LongtakeError
from longtake.services.accounts.caller import SCOPES_OF_ROLE, Caller, is_user_id
from longtake.services.accounts.errors import KeySetUnavailable, Unauthorized
from longtake.services.accounts.own_tokens import HS256, ExpectedClaims

LONGEST_TOKEN = 8192
MOST_KNOWN = 1_000
PARTS_OF_A_TOKEN = 3
LEEWAY_SECONDS = 60
LEAST_SECONDS_BETWEEN_FETCHES = 60.0
LONGEST_SECONDS_WITHOUT_FETCH = 3600.0
LEAST_RSA_BITS = 2048
MOST_KEYS = 100
MOST_BYTES = 500_000
FETCH_SECONDS = 10.0
#: The members of a public key of each type; everything else, above all a private part, is ignored.
PUBLIC_MEMBERS = {"RSA": ("kty", "n", "e"), "EC": ("kty", "crv", "x", "y")}

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class VerifyingKey:
    """A key and the only algorithm it may be used with."""

    key: Key
    algorithm: str


class SharedSecret:
    """One secret that both signs and verifies. The `kid` is ignored."""

    def __init__(self, secret: bytes) -> None:
        self._key = VerifyingKey(OctKey.import_key(secret), HS256)

    async def find(self, _kid: str | None) -> VerifyingKey:
        return self._key

    async def load(self) -> None:
        """Do nothing: the secret is already known."""


class PublishedKeys:
    """The JSON Web Key Set that an issuer publishes and changes, as last fetched.

    It is fetched again when a token names an unknown key, at most once a minute, and when it is an hour old. A fetch
    that fails keeps the old keys: the issuer's server may be down while its tokens are still valid.
    """

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


async def fetch_key_set(client: HttpClient, address: str) -> bytes:
    """Return the set from the address where its issuer publishes it."""
    answer = await client.request("GET", address, seconds=FETCH_SECONDS, most_bytes=MOST_BYTES)
    if answer.status != HTTPStatus.OK:
        raise KeySetUnavailable(f"The address in LONGTAKE_JWT_JWKS answers with status {answer.status}.")
    return answer.body


async def read_key_file(path: Path) -> bytes:
    """Return the set in a file."""
    try:
        return await asyncio.to_thread(path.read_bytes)
    except OSError as error:
        raise KeySetUnavailable(f"LONGTAKE_JWT_JWKS={path} cannot be read: {error.strerror}.") from None


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

    def __init__(self, keys: SharedSecret | PublishedKeys, expected: ExpectedClaims, clock: Clock) -> None:
        self._keys = keys
        self._expected = expected
        self._clock = clock
        #: A page sends the same token with every request. A replaced key makes its tokens unknown again.
        self._known: dict[str, _VerifiedToken] = {}

    async def load(self) -> None:
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
