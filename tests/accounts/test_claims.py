"""What a well-signed token has to say, and what it lets its holder do."""

from __future__ import annotations

import math
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

from longtake.services.accounts.caller import SCOPES, Caller
from longtake.services.accounts.errors import Forbidden, Unauthorized
from longtake.services.accounts.own_tokens import ExpectedClaims, mint
from longtake.services.accounts.tokens import SharedSecret, Tokens, caller_from
from tests.accounts.stage import SECRET, claims

if TYPE_CHECKING:
    from tests.databases import StoppedClock

EXPECTED = ExpectedClaims("https://login.example", "longtake")


def caller(clock: StoppedClock, expected: ExpectedClaims | None = None, **changes: Any) -> Caller:
    return caller_from(claims(clock, **changes), expected or ExpectedClaims(), clock.now())


def refused(clock: StoppedClock, expected: ExpectedClaims | None = None, **changes: Any) -> str:
    with pytest.raises(Unauthorized) as error:
        caller(clock, expected, **changes)
    return error.value.message


def test_an_expired_token_is_refused_after_a_minute_of_leeway(clock: StoppedClock) -> None:
    """A22: wrong issuer, audience or expiry."""
    end = int(clock.now().timestamp()) + 100
    clock.advance(100 + 59)
    assert caller(clock, exp=end, iat=None).user_id == "alice"
    clock.advance(1)
    assert refused(clock, exp=end, iat=None) == "The token has expired."


def test_a_token_without_an_expiry_is_refused(clock: StoppedClock) -> None:
    """A22: wrong issuer, audience or expiry."""
    assert refused(clock, exp=None) == "The token or key is not valid."


@pytest.mark.parametrize("exp", ["tomorrow", "9999999999", True, math.inf, math.nan, [], {}, -1e999])
def test_an_expiry_must_be_a_time(clock: StoppedClock, exp: Any) -> None:
    """A22: wrong issuer, audience or expiry."""
    assert refused(clock, exp=exp) == "The token or key is not valid."


@pytest.mark.parametrize("name", ["nbf", "iat"])
def test_a_token_from_the_future_is_refused_beyond_the_leeway(clock: StoppedClock, name: str) -> None:
    """A22: wrong issuer, audience or expiry."""
    now = int(clock.now().timestamp())
    assert caller(clock, None, **{name: now + 60}).user_id == "alice"
    assert refused(clock, None, **{name: now + 61}) == "The token or key is not valid."


@pytest.mark.parametrize(
    "iss", [None, "", "https://login.example/", "https://evil.example", 1, ["https://login.example"]]
)
def test_another_issuer_is_refused_when_one_is_expected(clock: StoppedClock, iss: Any) -> None:
    """A22: wrong issuer, audience or expiry."""
    assert refused(clock, EXPECTED, iss=iss, aud="longtake") == "The token or key is not valid."
    assert caller(clock, EXPECTED, iss="https://login.example", aud="longtake").user_id == "alice"


@pytest.mark.parametrize("aud", [None, "", "other", "longtake2", ["other"], [], 1, {"longtake": 1}])
def test_another_audience_is_refused_when_one_is_expected(clock: StoppedClock, aud: Any) -> None:
    """A22: wrong issuer, audience or expiry."""
    assert refused(clock, EXPECTED, iss="https://login.example", aud=aud) == "The token or key is not valid."


@pytest.mark.parametrize("aud", ["longtake", ["other", "longtake"]])
def test_one_of_several_audiences_is_enough(clock: StoppedClock, aud: Any) -> None:
    assert caller(clock, EXPECTED, iss="https://login.example", aud=aud).user_id == "alice"


@pytest.mark.parametrize("sub", [None, "", " ", "x" * 201, "a\nb", "a\0", 7, ["alice"], "\ud800", "a\u202eb"])
def test_a_user_has_a_printable_id(clock: StoppedClock, sub: Any) -> None:
    assert refused(clock, sub=sub) == "The token or key is not valid."


@pytest.mark.parametrize("sub", ["x" * 200, "auth0|5f7c8ec7c33c6c004bbafe82", "名前", 'o\'hara "the" third'])
def test_an_id_may_be_anything_printable(clock: StoppedClock, sub: str) -> None:
    assert caller(clock, sub=sub).user_id == sub


@pytest.mark.parametrize(
    ("role", "scopes"),
    [
        (None, {"read", "generate"}),
        ("user", {"read", "generate"}),
        ("service", {"read", "generate"}),
        ("operator", {"read", "generate", "operate"}),
        ("admin", {"read", "generate", "operate", "admin"}),
    ],
)
def test_what_a_role_may_do(clock: StoppedClock, role: str | None, scopes: set[str]) -> None:
    found = caller(clock, role=role)
    assert (found.role, set(found.scopes)) == (role or "user", scopes)


@pytest.mark.parametrize("role", ["root", "", "Admin", "admin ", ["admin"], 1, {"admin": True}])
def test_an_unknown_role_is_refused_and_not_taken_for_a_users(clock: StoppedClock, role: Any) -> None:
    assert refused(clock, role=role) == "The token or key is not valid."


@pytest.mark.parametrize(
    ("given", "left"),
    [
        ({"scope": "read"}, {"read"}),
        ({"scopes": ["read", "operate"]}, {"read", "operate"}),
        ({"scope": "openid profile"}, set()),
        ({"scope": ""}, set()),
        ({"scopes": []}, set()),
        ({"scope": "read generate", "scopes": ["generate", "operate"]}, {"generate"}),
        ({"scope": "admin operate"}, {"operate"}),
    ],
)
def test_a_scope_narrows_and_never_widens(clock: StoppedClock, given: dict[str, Any], left: set[str]) -> None:
    assert caller(clock, role="operator", **given).scopes == left


@pytest.mark.parametrize("scope", [1, {"read": True}, [1], [["read"]]])
def test_a_scope_that_cannot_be_understood_is_refused(clock: StoppedClock, scope: Any) -> None:
    assert refused(clock, scope=scope) == "The token or key is not valid."


def test_what_a_caller_may_not_do_is_forbidden_by_name(clock: StoppedClock) -> None:
    user = caller(clock)
    user.require("read")
    with pytest.raises(Forbidden, match="operate") as forbidden:
        user.require("operate")
    assert forbidden.value.hint == "It has: generate, read."
    for scope in SCOPES:
        caller(clock, role="admin").require(scope)


async def test_a_minted_token_is_taken_until_it_ends(clock: StoppedClock) -> None:
    token = mint(SECRET, EXPECTED, user_id="bob", role="operator", now=clock.now(), lifetime=timedelta(hours=2))
    tokens = Tokens(SharedSecret(SECRET), EXPECTED, clock)
    found = await tokens.caller(token)
    assert (found.user_id, found.role, found.key_id) == ("bob", "operator", None)
    with pytest.raises(Unauthorized, match="not valid"):
        await Tokens(SharedSecret(SECRET), ExpectedClaims("other"), clock).caller(token)
    clock.advance(2 * 3600 + 61)
    with pytest.raises(Unauthorized, match="expired"):
        await tokens.caller(token)
