"""Pages of other origins: those that are named may use the server, and read its refusals; all others hear nothing."""

from __future__ import annotations

import http.client
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import pytest

from longtake.settings import Settings
from tests.api.stage import NOTHING, Api, place_for, token
from tests.wait import PATIENCE_SECONDS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.service.processes import Answer

SHOP = "https://shop.example.com"
ADMIN = "http://localhost:5173"
FOREIGN = [
    "https://elsewhere.example",
    "http://shop.example.com",
    "https://shop.example.com:8443",
    "https://shop.example.com.evil.example",
    "https://evil-shop.example.com",
    "HTTPS://SHOP.EXAMPLE.COM",
    "null",
    "",
    "*",
]


@pytest.fixture(scope="module")
def api(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Api]:
    place = place_for(tmp_path_factory.mktemp("api"), allowed_origins=f"{SHOP}:443/, {ADMIN}")
    with place.server_here(with_worker=False) as server:
        yield Api(place, server)


def permissions(answer: Answer) -> dict[str, str]:
    return {name: value for name, value in answer.headers.items() if name.startswith("access-control")}


def ask_first(api: Api, origin: str, path: str = "/v1/images/generate", **headers: str) -> Answer:
    """Ask as a browser does before it sends a request with a token."""
    asked = {"Access-Control-Request-Method": "POST", "Access-Control-Request-Headers": "authorization,content-type"}
    return api.ask("OPTIONS", path, user=None, headers={"Origin": origin} | asked | headers)


@pytest.mark.parametrize("origin", [SHOP, ADMIN])
def test_a_named_origin_may_ask(api: Api, origin: str) -> None:
    answer = ask_first(api, origin)
    assert answer.status == 204
    assert answer.headers["access-control-allow-origin"] == origin
    assert {"DELETE", "GET", "POST"} <= set(answer.headers["access-control-allow-methods"].split(", "))
    assert set(answer.headers["access-control-allow-headers"].split(", ")) == {
        "Authorization", "Content-Type", "Idempotency-Key", "Last-Event-ID", "Prefer", "Longtake-User", "X-Request-Id",
    }  # fmt: skip
    assert answer.headers["access-control-max-age"] == "600"
    assert "Origin" in answer.headers["vary"]
    assert answer.headers["x-request-id"]


def test_a_named_origin_may_read_the_answer(api: Api) -> None:
    answer = api.ask("GET", "/v1/credits", headers={"Origin": SHOP})
    assert answer.status == 200
    assert answer.headers["access-control-allow-origin"] == SHOP
    assert set(answer.headers["access-control-expose-headers"].split(", ")) == {
        "Location", "X-Request-Id", "Idempotent-Replayed", "Retry-After",
    }  # fmt: skip
    assert "access-control-allow-credentials" not in answer.headers
    assert "Origin" in answer.headers["vary"]


@pytest.mark.parametrize("origin", FOREIGN)
def test_every_other_origin_hears_nothing(api: Api, origin: str) -> None:
    first = ask_first(api, origin)
    assert (first.status, first.json["code"]) == (405, "METHOD_NOT_ALLOWED")
    shown = api.ask("GET", "/v1/credits", headers={"Origin": origin})
    assert permissions(first) == permissions(shown) == {}
    # A cache must keep this answer apart from that of an origin that is named.
    assert "Origin" in shown.headers["vary"]


def test_without_an_origin_nothing_is_said(api: Api) -> None:
    assert permissions(api.ask("GET", "/v1/credits")) == {}


def test_options_without_the_question_of_a_browser_is_an_ordinary_request(api: Api) -> None:
    answer = api.ask("OPTIONS", "/v1/images/generate", user=None, headers={"Origin": SHOP})
    assert (answer.status, answer.json["code"]) == (405, "METHOD_NOT_ALLOWED")


def test_a_page_may_read_why_it_was_refused(api: Api) -> None:
    origin = {"Origin": SHOP}
    refusals = [
        (401, api.ask("GET", "/v1/credits", user=None, headers=origin)),
        (404, api.ask("GET", f"/v1/tasks/{NOTHING}", headers=origin)),
        (404, api.ask("GET", "/nowhere", headers=origin)),
        (413, api.ask("POST", "/v1/images/generate", headers=origin | {"Content-Length": "99999999"})),
        (421, api.ask("GET", "/v1/credits", headers=origin | {"Host": "elsewhere.example"})),
        (421, ask_first(api, SHOP, Host="elsewhere.example")),
        (422, api.ask("POST", "/v1/images/generate", {"model": 1}, headers=origin)),
    ]
    for status, answer in refusals:
        assert answer.status == status
        assert answer.headers["access-control-allow-origin"] == SHOP


def test_a_stream_is_not_held_back(api: Api) -> None:
    """The stream of events never ends: if anything were collected first, its beginning would not arrive."""
    address = urlsplit(api.server.url)
    connection = http.client.HTTPConnection(address.hostname or "", address.port, timeout=PATIENCE_SECONDS)
    headers = {"Origin": SHOP, "Authorization": f"Bearer {token()}"}
    connection.request("GET", "/v1/events", headers=headers)
    answer = connection.getresponse()
    try:
        assert answer.status == 200
        assert answer.headers["access-control-allow-origin"] == SHOP
        assert answer.readline()
    finally:
        connection.close()


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        ("", ""),
        ("https://Shop.Example.com:443/", "https://shop.example.com"),
        ("http://localhost:80, https://a.b:8443 ,", "http://localhost,https://a.b:8443"),
        ("http://[::1]:3000", "http://[::1]:3000"),
    ],
)
def test_origins_are_kept_as_browsers_spell_them(given: str, kept: str) -> None:
    assert Settings(allowed_origins=given).allowed_origins == kept


@pytest.mark.parametrize(
    "origin",
    ["null", "shop.example.com", "https://*.example.com", "https://a.b/path", "https://me@a.b", "file://x", "https://"],
)
def test_what_is_no_origin_is_refused(origin: str) -> None:
    with pytest.raises(ValueError, match="is not an origin"):
        Settings(allowed_origins=f"https://fine.example,{origin}")


def test_all_origins_at_once_are_refused() -> None:
    with pytest.raises(ValueError, match="must name each origin"):
        Settings(allowed_origins="*")
