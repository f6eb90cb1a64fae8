"""Guessing: an address from which too many tokens and keys were refused waits with any it has not shown before."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from longtake.services.accounts.authenticator import address_bucket
from tests.api.stage import Api, place_for, token

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.service.processes import Answer

#: One a minute: what is not admitted at once is not admitted while a test runs.
LIMIT = "1"
ATTACKER = "203.0.113.7"


@pytest.fixture
def open_api(tmp_path: Path) -> Iterator[Api]:
    """A server that believes nobody about addresses."""
    place = place_for(tmp_path, failed_logins_per_minute=LIMIT)
    with place.server_here(with_worker=False) as server:
        yield Api(place, server)


@pytest.fixture
def proxied_api(tmp_path: Path) -> Iterator[Api]:
    """A server behind proxies on its own machine and in a network of its own."""
    place = place_for(tmp_path, trusted_proxies="loopback, 10.0.0.0/8", failed_logins_per_minute=LIMIT)
    with place.server_here(with_worker=False) as server:
        yield Api(place, server)


def guess(api: Api, forwarded: str = "", credential: str = "lt_guess") -> Answer:
    headers = {"Authorization": f"Bearer {credential}"} | ({"X-Forwarded-For": forwarded} if forwarded else {})
    return api.ask("GET", "/v1/credits", user=None, headers=headers)


def test_who_guessed_too_often_waits(open_api: Api) -> None:
    assert guess(open_api).status == 401
    refused = guess(open_api, credential="a.b.c")
    assert (refused.status, refused.json["code"]) == (429, "RATE_LIMITED")
    assert 0 < int(refused.headers["retry-after"]) <= 60
    # A right one that was never seen is not looked at either: otherwise guessing would go on unhindered.
    assert open_api.ask("GET", "/v1/credits").status == 429
    # The server's own commands do not log in this way.
    assert open_api.server.operate("lanes.list").status == 200


def test_a_stranger_behind_the_same_address_locks_out_nobody_who_is_in(open_api: Api) -> None:
    known = {"Authorization": f"Bearer {token('ada')}"}
    assert open_api.ask("GET", "/v1/credits", user=None, headers=known).status == 200
    assert [guess(open_api).status for _ in range(3)] == [401, 429, 429]
    assert open_api.ask("GET", "/v1/credits", user=None, headers=known).status == 200


def test_coming_without_a_token_is_no_guess(open_api: Api) -> None:
    assert {open_api.ask("GET", "/v1/credits", user=None).status for _ in range(5)} == {401}
    assert open_api.ask("GET", "/v1/credits").status == 200


def test_right_tokens_are_not_counted(open_api: Api) -> None:
    assert {open_api.ask("GET", "/v1/credits").status for _ in range(5)} == {200}


def test_a_strangers_word_about_addresses_is_not_believed(open_api: Api) -> None:
    assert [guess(open_api, f"203.0.113.{number}").status for number in range(3)] == [401, 429, 429]


def test_a_trusted_proxys_word_is_believed(proxied_api: Api) -> None:
    assert [guess(proxied_api, ATTACKER).status for _ in range(2)] == [401, 429]
    assert guess(proxied_api, "203.0.113.8").status == 401
    assert proxied_api.ask("GET", "/v1/credits", headers={"X-Forwarded-For": "203.0.113.9"}).status == 200


def test_only_what_trusted_proxies_added_counts(proxied_api: Api) -> None:
    """What stands left of the first address that is no proxy was written by that address."""
    statuses = [guess(proxied_api, f"198.51.100.{number}, {ATTACKER}, 10.0.0.1").status for number in range(3)]
    assert statuses == [401, 429, 429]


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("2001:db8:1:2::1", "2001:db8:1:2:ffff::9", True),
        ("2001:db8:1:2::1", "2001:db8:1:3::1", False),
        ("::ffff:203.0.113.7", "203.0.113.7", True),
        ("203.0.113.7", "203.0.113.8", False),
        ("not an address", "not an address", True),
    ],
)
def test_a_household_is_counted_as_one(one: str, other: str, same: bool) -> None:
    assert (address_bucket(one) == address_bucket(other)) is same
