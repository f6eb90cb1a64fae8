"""Identifies the caller from the headers of a request, by a token or an API key, and limits how often they may ask."""

from __future__ import annotations

import hashlib
import hmac
import ipaddress
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path

import structlog

from longtake.adapters.net import HttpClient
from longtake.adapters.net.errors import NetError
from longtake.clock import Clock
from longtake.db import Database
from longtake.errors import LongtakeError
from longtake.services.accounts.api_keys import PREFIX, digest, find_key, note_use
from longtake.services.accounts.caller import LONGEST_USER_ID, SCOPES_OF_ROLE, Caller, is_user_id
from longtake.services.accounts.errors import Forbidden, RateLimited, Unauthorized
from longtake.services.accounts.own_tokens import ExpectedClaims, token_secret
from longtake.services.accounts.tokens import (
    PublishedKeys,
    SharedSecret,
    Tokens,
    fetch_key_set,
    not_valid,
    read_key_file,
)
from longtake.settings import Settings

ACTING_FOR = "longtake-user"
MOST_KNOWN = 50_000
MINUTE = 60.0
#: Seconds of floating-point error that never cause a refusal.
ROUNDING = 1e-6
#: Users remembered. A forgotten user starts at zero, which only matters with more active users than this.
MOST_USERS = 50_000
#: One household or host has all IPv6 addresses with the same first bits.
IPV6_BITS = 64

log = structlog.get_logger(__name__)


class Authenticator:
    """Identifies callers by their tokens and keys, and limits how often each of them may ask."""

    def __init__(self, database: Database, tokens: Tokens, rates: RateLimits, refusals: RateLimits) -> None:
        self._database = database
        self._tokens = tokens
        self._rates = rates
        self._refusals = refusals
        #: Digests of credentials that were accepted, the latest last. Sending one again is not a guess.
        self._known: OrderedDict[bytes, None] = OrderedDict()

    async def identify_from(self, address: str, headers: Mapping[str, str]) -> Caller:
        """Return the caller, as `identify` does; an address with too many refusals can send nothing new.

        Credentials accepted before still work, so that a stranger behind the same address or proxy locks no user out.
        """
        credentials = headers.get("authorization")
        if credentials is None:
            return await self.identify(headers)
        bucket, mark = address_bucket(address), hashlib.sha256(credentials.encode(errors="replace")).digest()
        if mark not in self._known:
            self._refusals.check(bucket)
        try:
            caller = await self.identify(headers)
        except Unauthorized:
            self._known.pop(mark, None)
            self._refusals.count(bucket)
            raise
        self._remember(mark)
        return caller

    def knows_secret(self, address: str, shown: str, secret: str) -> bool:
        """Return whether `shown` is our secret. A wrong one counts as a refusal of the address."""
        bucket, mark = address_bucket(address), hashlib.sha256(shown.encode(errors="replace")).digest()
        if mark not in self._known:
            self._refusals.check(bucket)
        if not hmac.compare_digest(mark, hashlib.sha256(secret.encode()).digest()):
            self._refusals.count(bucket)
            return False
        self._remember(mark)
        return True

    def _remember(self, mark: bytes) -> None:
        self._known[mark] = None
        self._known.move_to_end(mark)
        if len(self._known) > MOST_KNOWN:
            self._known.popitem(last=False)

    async def identify(self, headers: Mapping[str, str]) -> Caller:
        """Return the caller; raises Unauthorized, or Forbidden when they may not act for the user they name.

        Header names must be in lower case.
        """
        scheme, _space, credential = headers.get("authorization", "").partition(" ")
        credential = credential.strip()
        if scheme.lower() != "bearer" or not credential:
            raise Unauthorized("This request needs a token or an API key.")
        if credential.startswith(PREFIX):
            caller = await self._key_holder(credential)
        else:
            caller = await self._tokens.caller(credential)
        return _acting_for(caller, headers.get(ACTING_FOR))

    async def start(self) -> None:
        """Load the keys before the first request. An issuer that cannot be reached is asked again later."""
        try:
            await self._tokens.load()
        except NetError as error:
            log.warning("key set not available yet", action="authenticate", code=error.code)

    def admit(self, caller: Caller) -> None:
        """Count the request; raises RateLimited when its user has sent too many."""
        self._rates.admit(caller.user_id)

    async def _key_holder(self, key: str) -> Caller:
        # Looked up for every request, so that a revoked key stops working at once in every process.
        row = await self._database.read(find_key, digest(key))
        if row is None:
            raise not_valid()
        if row.stale:
            try:
                await self._database.run(note_use, row.id)
            except LongtakeError as error:
                # Recording the last use is not worth refusing a request that the database can still answer.
                log.warning("last use of a key not recorded", action="authenticate", code=error.code)
        return Caller(row.user_id, row.role, SCOPES_OF_ROLE[row.role] & frozenset(row.scopes), str(row.id))


def build_authenticator(
    settings: Settings,
    database: Database,
    *,
    own_secret: Callable[[], bytes],
    client: HttpClient,
    clock: Clock,
) -> Authenticator:
    """Return the configured authenticator; `own_secret` is called only when no other key is configured."""
    expected = ExpectedClaims(settings.jwt_issuer, settings.jwt_audience)
    if settings.jwt_jwks:
        remote, file = "://" in settings.jwt_jwks, Path(settings.jwt_jwks).expanduser()
        fetch = partial(fetch_key_set, client, settings.jwt_jwks) if remote else partial(read_key_file, file)
        tokens = Tokens(PublishedKeys(fetch, clock), expected, clock)
    else:
        tokens = Tokens(SharedSecret(token_secret(settings, own_secret)), expected, clock)
    refused = "Too many tokens and keys from your address were refused."
    refusals = RateLimits(settings.failed_logins_per_minute, clock, sentence=refused)
    return Authenticator(database, tokens, RateLimits(settings.requests_per_minute, clock), refusals)


def _acting_for(caller: Caller, named: str | None) -> Caller:
    if named is None:
        return caller
    if caller.role != "service":
        raise Forbidden("Only a token or key with the role `service` may send Longtake-User.")
    try:
        # HTTP servers decode headers as Latin-1, whatever their encoding.
        user_id = named.encode("latin-1").decode("utf-8")
    except UnicodeError:
        user_id = ""
    if not is_user_id(user_id):
        raise Forbidden(f"Longtake-User must be a user's id: 1 to {LONGEST_USER_ID} printable characters.")
    return replace(caller, user_id=user_id)


class RateLimits:
    """Limits per user or per address: a number a minute, of which a tenth may come at once; counted per process.

    Keeps one time for each: when all admitted requests would be over if spread out evenly (GCRA).
    """

    def __init__(self, per_minute: int, clock: Clock, sentence: str = "You have sent too many requests.") -> None:
        self._interval = MINUTE / per_minute
        self._tolerance = (max(1, per_minute // 10) - 1) * self._interval
        self._clock = clock
        self._sentence = sentence
        self._spread_until: OrderedDict[str, float] = OrderedDict()

    def admit(self, user_id: str) -> None:
        """Count one request, or raise RateLimited. A refused request is not counted."""
        self.check(user_id)
        self.count(user_id)

    def check(self, user_id: str) -> None:
        wait = self._spread_until.get(user_id, 0.0) - self._clock.monotonic() - self._tolerance
        if wait > ROUNDING:
            raise RateLimited(self._sentence, retry_after=round(wait, 3))

    def count(self, user_id: str) -> None:
        now = self._clock.monotonic()
        self._spread_until[user_id] = max(self._spread_until.get(user_id, now), now) + self._interval
        self._spread_until.move_to_end(user_id)
        if len(self._spread_until) > MOST_USERS:
            self._spread_until.popitem(last=False)


def address_bucket(address: str) -> str:
    """Return the key a limit per address counts under: the IPv4 address, or the /64 network of an IPv6 address."""
    try:
        found = ipaddress.ip_address(address)
    except ValueError:
        return address
    if isinstance(found, ipaddress.IPv4Address):
        return str(found)
    if found.ipv4_mapped is not None:
        return str(found.ipv4_mapped)
    return str(ipaddress.ip_network((int(found), IPV6_BITS), strict=False))
