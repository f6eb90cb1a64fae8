"""H1: a stranger's body is not read, and no body costs more than its length."""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import pytest

from longtake.http.strict_json import AmbiguousJson, _object
from tests.api.stage import Api, assert_problem
from tests.wait import PATIENCE_SECONDS

if TYPE_CHECKING:
    from collections.abc import Sequence

WANT_A_CALLER = [
    ("POST", "/v1/images/generate"), ("POST", "/v1/videos/generate"), ("POST", "/v1/runs"), ("POST", "/v1/webhooks"),
    ("POST", "/v1/conversations"), ("POST", "/v1/keys"), ("POST", "/v1/assets"), ("POST", "/v1/references"),
    ("POST", "/v1/admin/credits/grant"), ("POST", "/v1/catalogue/titles"),
]  # fmt: skip


@pytest.mark.parametrize(("method", "path"), WANT_A_CALLER)
def test_a_stranger_is_refused_before_any_byte_of_the_body(still_api: Api, method: str, path: str) -> None:
    """The body is announced and never sent: a server that waited for it would not answer."""
    address = urlsplit(still_api.server.url)
    head = f"{method} {path} HTTP/1.1\r\nHost: {address.netloc}\r\nContent-Type: application/json\r\n"
    with socket.create_connection((address.hostname, address.port or 0), timeout=PATIENCE_SECONDS) as connection:
        connection.sendall(f"{head}Content-Length: 480000\r\n\r\n".encode())
        assert connection.recv(100).startswith(b"HTTP/1.1 401 ")


def test_who_may_not_is_refused_before_what_is_sent_is_wrong(still_api: Api) -> None:
    answer = still_api.ask("POST", "/v1/images/generate", user=None, body=b"{nonsense")
    assert_problem(answer, 401, "UNAUTHORIZED")
    assert_problem(still_api.ask("POST", "/v1/images/generate", body=b"{nonsense"), 400, "JSON_INVALID")


class Name(str):
    """A name that counts how often it is compared."""

    __slots__ = ()
    compared = 0

    def __eq__(self, other: object) -> bool:
        Name.compared += 1
        return str.__eq__(self, other)

    __hash__ = str.__hash__


def names(texts: Sequence[str]) -> list[tuple[str, object]]:
    Name.compared = 0
    return [(Name(text), 0) for text in texts]


def test_a_name_that_comes_twice_is_found_in_one_pass() -> None:
    pairs = names([*(f"name {number}" for number in range(20_000)), "name 19999"])
    with pytest.raises(AmbiguousJson, match="'name 19999' twice"):
        _object(pairs)
    assert Name.compared < 2 * len(pairs)
