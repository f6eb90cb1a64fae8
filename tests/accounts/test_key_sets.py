"""Key sets: found by id, fetched again when they must be and no more often, kept when they cannot be had."""

from __future__ import annotations

import asyncio
import json
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest
from aiohttp import web
from joserfc.jwk import ECKey, OctKey

from longtake.adapters.net import HttpClient
from longtake.adapters.net.errors import ConnectFailed, NetError
from longtake.services.accounts.errors import KeySetUnavailable, Unauthorized
from longtake.services.accounts.own_tokens import ExpectedClaims
from longtake.services.accounts.tokens import PublishedKeys, Tokens, fetch_key_set, read_key_file, read_key_set
from tests.accounts.stage import claims, signed

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from joserfc.jwk import Key

    from tests.databases import StoppedClock

FIRST = ECKey.generate_key("P-256", {"kid": "first"})
SECOND = ECKey.generate_key("P-256", {"kid": "second"})
# 1,024 bits: a library would warn, and an attacker with some money would not need to.
SMALL_RSA = {"kty": "RSA", "kid": "x", "e": "AQAB", "n": "8" * 170 + "w"}


def document(*keys: Key) -> bytes:
    return json.dumps({"keys": [key.as_dict(private=False) for key in keys]}).encode()


class Issuer:
    """Publishes keys, counts how often it is asked, and can be out of reach."""

    def __init__(self, *keys: Key) -> None:
        self.content = document(*keys)
        self.asked = 0
        self.error: Exception | None = None

    async def fetch(self) -> bytes:
        self.asked += 1
        await asyncio.sleep(0)
        if self.error is not None:
            raise self.error
        return self.content


async def test_a_key_that_is_new_is_fetched_once_and_then_known(clock: StoppedClock) -> None:
    issuer = Issuer(FIRST)
    keys = PublishedKeys(issuer.fetch, clock)
    assert await keys.find("first") is not None
    issuer.content = document(FIRST, SECOND)
    clock.advance(61)
    assert await keys.find("second") is not None
    for _ in range(5):
        assert await keys.find("second") is not None
        assert await keys.find("first") is not None
    assert issuer.asked == 2


async def test_unknown_ids_make_no_more_than_one_fetch_a_minute(clock: StoppedClock) -> None:
    issuer = Issuer(FIRST)
    keys = PublishedKeys(issuer.fetch, clock)
    for number in range(50):
        assert await keys.find(f"made-up-{number}") is None
    assert issuer.asked == 1
    clock.advance(59)
    assert await keys.find("made-up") is None
    assert issuer.asked == 1
    clock.advance(1)
    assert await keys.find("made-up") is None
    assert issuer.asked == 2


async def test_many_at_once_make_one_fetch(clock: StoppedClock) -> None:
    issuer = Issuer(FIRST)
    keys = PublishedKeys(issuer.fetch, clock)
    found = await asyncio.gather(*(keys.find("first") for _ in range(20)))
    assert None not in found
    assert issuer.asked == 1


async def test_keys_are_kept_when_the_issuer_cannot_be_reached(clock: StoppedClock) -> None:
    issuer = Issuer(FIRST)
    keys = PublishedKeys(issuer.fetch, clock)
    await keys.find("first")
    issuer.error = ConnectFailed("Nobody there.")
    clock.advance(4000)
    assert await keys.find("first") is not None
    assert await keys.find("second") is None
    assert issuer.asked == 2


@pytest.mark.parametrize("content", [b"", b"<html>", b"{}", b'{"keys": []}', b"[]", b'{"keys": {}}'])
async def test_keys_are_kept_when_what_comes_is_no_key_set(clock: StoppedClock, content: bytes) -> None:
    issuer = Issuer(FIRST)
    keys = PublishedKeys(issuer.fetch, clock)
    await keys.find("first")
    issuer.content = content
    clock.advance(4000)
    assert await keys.find("first") is not None


async def test_a_key_that_was_taken_back_ends_within_the_hour(clock: StoppedClock) -> None:
    issuer = Issuer(FIRST, SECOND)
    keys = PublishedKeys(issuer.fetch, clock)
    assert await keys.find("first") is not None
    issuer.content = document(SECOND)
    clock.advance(3601)
    assert await keys.find("first") is None


async def test_without_any_key_yet_it_is_not_the_callers_fault(clock: StoppedClock) -> None:
    issuer = Issuer(FIRST)
    issuer.error = ConnectFailed("Nobody there.")
    keys = PublishedKeys(issuer.fetch, clock)
    with pytest.raises(KeySetUnavailable) as unavailable:
        await keys.find("first")
    assert unavailable.value.facts["retry_after"] == 60
    issuer.error = None
    clock.advance(60)
    assert await keys.find("first") is not None


async def test_a_token_without_an_id_fits_where_there_is_one_key_only(clock: StoppedClock) -> None:
    assert await PublishedKeys(Issuer(FIRST).fetch, clock).find(None) is not None
    assert await PublishedKeys(Issuer(FIRST, SECOND).fetch, clock).find(None) is None


@pytest.mark.parametrize(
    "member",
    [
        OctKey.generate_key(256, {"kid": "x"}).as_dict(private=True),
        ECKey.generate_key("P-384", {"kid": "x"}).as_dict(private=False),
        SMALL_RSA,
        {**FIRST.as_dict(private=False), "use": "enc"},
        {**FIRST.as_dict(private=False), "alg": "HS256"},
        {**FIRST.as_dict(private=False), "y": "AAAA"},
        {"kty": "RSA", "kid": "x"},
        {"kty": "none"},
        "x",
        None,
    ],
)
def test_keys_of_other_kinds_are_left_out(member: Any) -> None:
    content = json.dumps({"keys": [member, SECOND.as_dict(private=False)]}).encode()
    assert list(read_key_set(content)) == ["second"]


def test_a_private_part_that_was_published_is_not_taken_in() -> None:
    content = json.dumps({"keys": [FIRST.as_dict(private=True)]}).encode()
    assert read_key_set(content)["first"].key.is_private is False


async def test_a_file_that_is_not_there_is_named(tmp_path: Path, clock: StoppedClock) -> None:
    with pytest.raises(KeySetUnavailable, match=r"missing\.json"):
        await PublishedKeys(partial(read_key_file, tmp_path / "missing.json"), clock).load()


class Published:
    """What the small server answers, and where it is."""

    def __init__(self) -> None:
        self.content = document(FIRST)
        self.status = 200
        self.address = ""


@pytest.fixture
async def published() -> AsyncIterator[Published]:
    state = Published()

    async def answer(_request: web.Request) -> web.Response:
        return web.Response(status=state.status, body=state.content)

    app = web.Application()
    app.router.add_get("/keys.json", answer)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    state.address = f"http://127.0.0.1:{runner.addresses[0][1]}/keys.json"
    yield state
    await runner.cleanup()


async def test_keys_come_from_a_real_server(published: Published, clock: StoppedClock) -> None:
    client = HttpClient(allowed_addresses=["127.0.0.1/32"])
    try:
        keys = PublishedKeys(partial(fetch_key_set, client, published.address), clock)
        tokens = Tokens(keys, ExpectedClaims(), clock)
        good = signed(claims(clock), FIRST, "ES256", {"kid": "first"})
        assert (await tokens.caller(good)).user_id == "alice"
        new = signed(claims(clock), SECOND, "ES256", {"kid": "second"})
        with pytest.raises(Unauthorized):
            await tokens.caller(new)
        published.content = document(FIRST, SECOND)
        clock.advance(61)
        assert (await tokens.caller(new)).user_id == "alice"
        published.status = 500
        clock.advance(61)
        assert (await tokens.caller(good)).user_id == "alice"
    finally:
        await client.close()


async def test_the_guard_of_addresses_holds_for_key_sets_too(published: Published, clock: StoppedClock) -> None:
    client = HttpClient()
    try:
        with pytest.raises(NetError):
            await PublishedKeys(partial(fetch_key_set, client, published.address), clock).load()
    finally:
        await client.close()
