"""What tests of accounts have in common: a secret, tokens, and the whole web application without a network."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from json import dumps, loads
from typing import TYPE_CHECKING, Any

from joserfc import jwt
from joserfc.jwk import OctKey
from joserfc.jws import JWSRegistry

from longtake.clock import SystemClock
from longtake.server.open_database import LOCATIONS
from longtake.server.web import Readiness, Serving
from longtake.services.accounts.authenticator import Authenticator, RateLimits
from longtake.services.accounts.deletion import AccountDeletion
from longtake.services.accounts.own_tokens import ExpectedClaims
from longtake.services.accounts.routes import build_routes
from longtake.services.accounts.tokens import SharedSecret, Tokens
from tests.operators import actions_with

if TYPE_CHECKING:
    from collections.abc import Mapping

    from joserfc.jwk import Key

    from longtake import Engine
    from longtake.clock import Clock
    from longtake.services.vault.vault import Vault

SECRET = b"a secret of thirty-two characters"


def claims(clock: Clock, **changes: Any) -> dict[str, Any]:
    """Return the claims of a good token; None takes one away."""
    now = clock.now()
    good = {"sub": "alice", "iat": int(now.timestamp()), "exp": int((now + timedelta(hours=1)).timestamp())}
    return {name: value for name, value in (good | changes).items() if value is not None}


def signed(
    content: Mapping[str, Any],
    key: Key | None = None,
    algorithm: str = "HS256",
    header: Mapping[str, Any] | None = None,
) -> str:
    """Return a token with these claims."""
    signing = OctKey.import_key(SECRET) if key is None else key
    registry = JWSRegistry(algorithms=[algorithm], strict_check_header=False)
    return jwt.encode({"alg": algorithm, **(header or {})}, dict(content), signing, [algorithm], registry)


def authenticator(engine: Engine, clock: Clock | None = None, per_minute: int = 6_000) -> Authenticator:
    clock = clock or SystemClock()
    tokens = Tokens(SharedSecret(SECRET), ExpectedClaims(), clock)
    return Authenticator(engine.database, tokens, RateLimits(per_minute, clock), RateLimits(6_000, clock))


def serving(engine: Engine, accounts: Authenticator | None = None, vault: Vault | None = None) -> Serving:
    """Return what the web application is made of, with the server's token `server-token`."""
    return Serving(
        engine=engine,
        readiness=Readiness(engine.database, LOCATIONS, lambda: "ok"),
        token="server-token",
        accounts=accounts or authenticator(engine),
        actions=actions_with(vault),
        capabilities=[build_routes(engine, AccountDeletion(engine.database, tuple))],
    )


@dataclass
class Answer:
    """What the application answered."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return loads(self.body)


async def ask(
    app: Any,
    method: str,
    path: str,
    *,
    token: str | None = None,
    body: bytes | None = None,
    json: Any = None,
    headers: Mapping[str, str] | None = None,
) -> Answer:
    """Send one request through an ASGI application."""
    sent = {"host": "localhost"} | dict(headers or {})
    if json is not None:
        body = dumps(json).encode()
        sent = {"content-type": "application/json"} | sent
    if token is not None:
        sent["authorization"] = f"Bearer {token}"
    scope = {
        "type": "http", "method": method, "path": path, "raw_path": path.encode(), "query_string": b"", "root_path": "",
        "scheme": "http", "http_version": "1.1", "server": ("127.0.0.1", 80), "client": ("127.0.0.1", 1),
        "headers": [(name.encode(), value.encode()) for name, value in sent.items()],
    }  # fmt: skip
    messages: list[dict[str, Any]] = []

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": body or b"", "more_body": False}

    async def send(message: dict[str, Any]) -> None:
        messages.append(message)

    await app(scope, receive, send)
    names = {name.decode(): value.decode() for name, value in messages[0]["headers"]}
    return Answer(messages[0]["status"], names, b"".join(one.get("body", b"") for one in messages))
