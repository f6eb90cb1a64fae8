"""Who a request is from: tokens and keys in headers, acting for others, and what is told of a refusal."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from sqlalchemy import update

from longtake import Engine, open_database
from longtake.adapters.net import HttpClient
from longtake.clock import SystemClock
from longtake.db.errors import DatabaseFull
from longtake.services.accounts.api_keys import api_keys, create_key, list_keys, make_key, revoke_key
from longtake.services.accounts.authenticator import Authenticator, build_authenticator
from longtake.services.accounts.current_caller import Caller
from longtake.services.accounts.errors import Forbidden, KeySetUnavailable, Unauthorized
from longtake.settings import Settings
from tests.accounts.stage import SECRET, authenticator, claims, signed

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from longtake import Database, Transaction

CLOCK = SystemClock()


@pytest.fixture
def database(sqlite_url: str) -> Iterator[Database]:
    """What keys do in a database is tested on both elsewhere; here it is about headers."""
    opened = open_database(sqlite_url)
    yield opened
    opened.close()


@pytest.fixture
def accounts(database: Database) -> Authenticator:
    return authenticator(Engine(database))


async def make(database: Database, role: str = "user", scopes: tuple[str, ...] = ("read",)) -> tuple[str, str]:
    new = make_key()
    await database.run(create_key, new, "alice", "import", role, scopes, None)
    return new.key, new.id


def bearer(credential: str, **others: str) -> dict[str, str]:
    return {
        "authorization": f"Bearer {credential}",
        **{name.replace("_", "-"): value for name, value in others.items()},
    }


async def test_a_token_and_a_key_say_who_it_is(accounts: Authenticator, database: Database) -> None:
    token = signed(claims(CLOCK, sub="bob", role="operator"))
    assert await accounts.identify(bearer(token)) == Caller(
        "bob", "operator", frozenset(("read", "generate", "operate"))
    )
    key, key_id = await make(database)
    assert await accounts.identify(bearer(key)) == Caller("alice", "user", frozenset(("read",)), key_id)


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"authorization": ""},
        {"authorization": "Bearer"},
        {"authorization": "Bearer "},
        {"authorization": "Basic YWxpY2U6"},
        {"authorization": "lt_" + "x" * 40},
        {"authorization": "Bearer lt_" + "x" * 40},
        {"authorization": "Bearer lt_"},
        {"authorization": "Bearer lt_\N{SNOWMAN}\0"},
        {"cookie": "token=x"},
    ],
)
async def test_without_something_valid_nobody_is_let_in(accounts: Authenticator, headers: dict[str, str]) -> None:
    with pytest.raises(Unauthorized):
        await accounts.identify(headers)


async def test_a_key_is_over_with_the_next_request_after_it_was_revoked(
    accounts: Authenticator, database: Database
) -> None:
    key, key_id = await make(database)
    await accounts.identify(bearer(key))
    await database.run(revoke_key, key_id)
    with pytest.raises(Unauthorized, match="not valid"):
        await accounts.identify(bearer(key))


async def test_a_key_never_may_more_than_its_role(accounts: Authenticator, database: Database) -> None:
    """Even if somebody has written more into its row."""
    key, _id = await make(database, "user", ("read", "operate", "admin"))
    assert (await accounts.identify(bearer(key))).scopes == {"read"}


async def test_the_use_of_a_key_is_noted_once_a_minute_at_most(
    accounts: Authenticator, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    key, _id = await make(database)
    writes: list[Any] = []
    run = database.run

    async def counted(function: Any, *arguments: Any, **options: Any) -> Any:
        writes.append(function)
        return await run(function, *arguments, **options)

    monkeypatch.setattr(database, "run", counted)
    for _ in range(5):
        await accounts.identify(bearer(key))
    assert len(writes) == 1
    (row,) = await database.read(list_keys, "alice")
    assert row["last_used_at"] is not None


async def test_a_key_is_good_even_if_its_use_cannot_be_noted(
    accounts: Authenticator, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    key, _id = await make(database)

    async def full(*_arguments: Any, **_options: Any) -> None:
        raise DatabaseFull("There is no room.")

    monkeypatch.setattr(database, "run", full)
    assert (await accounts.identify(bearer(key))).user_id == "alice"


async def test_a_service_acts_for_the_user_it_names(accounts: Authenticator, database: Database) -> None:
    token = signed(claims(CLOCK, sub="importer", role="service"))
    assert (await accounts.identify(bearer(token))).user_id == "importer"
    acting = await accounts.identify(bearer(token, longtake_user="bob"))
    assert (acting.user_id, acting.role, sorted(acting.scopes)) == ("bob", "service", ["generate", "read"])
    key, key_id = await make(database, "service")
    assert await accounts.identify(bearer(key, longtake_user="名前".encode().decode("latin-1"))) == Caller(
        "名前", "service", frozenset(("read",)), key_id
    )


@pytest.mark.parametrize("role", ["user", "operator", "admin"])
async def test_nobody_else_acts_for_others(accounts: Authenticator, database: Database, role: str) -> None:
    token = signed(claims(CLOCK, sub="bob", role=role))
    key, _id = await make(database, role)
    for credential in (token, key):
        for user in ("alice", "bob", ""):
            with pytest.raises(Forbidden):
                await accounts.identify(bearer(credential, longtake_user=user))


@pytest.mark.parametrize("user", ["", " ", "x" * 201, "a\tb", "\x80", "\x00"])
async def test_a_service_cannot_name_what_is_no_user(accounts: Authenticator, user: str) -> None:
    token = signed(claims(CLOCK, role="service"))
    with pytest.raises(Forbidden, match="printable"):
        await accounts.identify(bearer(token, longtake_user=user))


async def test_a_role_that_was_written_by_hand_lets_nobody_in(database: Database) -> None:
    _key, key_id = await make(database)

    def change(tx: Transaction) -> None:
        tx.execute(update(api_keys).where(api_keys.c.id == key_id).values(role="root"))

    with pytest.raises(Exception, match="api_keys_role"):
        await database.run(change)


async def built(settings: Settings, database: Database) -> Authenticator:
    client = HttpClient()
    found = build_authenticator(settings, database, own_secret=lambda: SECRET, client=client, clock=CLOCK)
    try:
        await found.start()
    finally:
        await client.close()
    return found


async def test_without_settings_the_own_secret_counts_and_with_one_it_does_not(database: Database) -> None:
    token = signed(claims(CLOCK))
    assert (await (await built(Settings(), database)).identify(bearer(token))).user_id == "alice"
    configured = await built(Settings.model_validate({"jwt_secret": "another secret, also long enough"}), database)
    with pytest.raises(Unauthorized):
        await configured.identify(bearer(token))


async def test_a_file_without_keys_is_found_at_the_start(database: Database, tmp_path: Path) -> None:
    file = tmp_path / "keys.json"
    file.write_text("{}")
    with pytest.raises(KeySetUnavailable):
        await built(Settings(jwt_jwks=str(file)), database)


async def test_an_issuer_out_of_reach_does_not_keep_the_server_from_starting(database: Database) -> None:
    accounts = await built(Settings(jwt_jwks="https://issuer.invalid/keys.json"), database)
    with pytest.raises(KeySetUnavailable):
        await accounts.identify(bearer(signed(claims(CLOCK))))
