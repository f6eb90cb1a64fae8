"""Whether who opened a stream may still read it is asked of the same tokens and keys as every request."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fastapi import FastAPI
from starlette.requests import Request

from longtake import Database, Engine
from longtake.services.accounts.api_keys import create_key, make_key, revoke_key
from longtake.services.live.routes import _still_valid
from tests.accounts.stage import authenticator, claims, signed
from tests.databases import StoppedClock

if TYPE_CHECKING:
    from longtake.services.accounts.authenticator import Authenticator


def asking(accounts: Authenticator, credential: str) -> Request:
    app = FastAPI()
    app.state.accounts = accounts
    headers = [(b"authorization", f"Bearer {credential}".encode())]
    return Request({"type": "http", "method": "GET", "path": "/v1/events", "headers": headers, "app": app})


async def test_a_token_counts_until_it_expires(database: Database) -> None:
    clock = StoppedClock()
    accounts = authenticator(Engine(database, []), clock)
    request = asking(accounts, signed(claims(clock)))
    still_valid = _still_valid(request, await accounts.identify(request.headers))
    assert await still_valid()
    clock.advance(3_600 + 61)
    assert not await still_valid()


async def test_a_key_counts_until_it_is_revoked_and_while_nobody_can_be_asked(database: Database) -> None:
    accounts = authenticator(Engine(database, []))
    new = make_key()
    await database.run(create_key, new, "alice", "mine", "user", ["read"])
    request = asking(accounts, new.key)
    still_valid = _still_valid(request, await accounts.identify(request.headers))
    assert await still_valid()
    await database.run(revoke_key, new.id)
    assert not await still_valid()
    database.close()
    assert await still_valid()
