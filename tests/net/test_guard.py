"""The guard against private addresses: A1 to A9 and A11 of the list of attacks."""

from __future__ import annotations

import re
import socket
from pathlib import Path

import pytest
from pydantic import ValidationError

from longtake.adapters.net import HttpClient, same_origin
from longtake.adapters.net.errors import AddressRefused, HostUnresolved
from longtake.adapters.net.guard import AddressGuard, read_url
from longtake.settings import Settings
from tests.net.servers import Names, Server, answer, redirecting, running, saying

SOURCE = Path(__file__).parent.parent.parent / "src" / "longtake"
NOT_PUBLIC = [
    "127.0.0.1", "10.1.2.3", "172.16.0.1", "172.31.255.255", "192.168.1.1", "0.0.0.0",  # noqa: S104 - refused, not bound to
    "0.1.2.3", "169.254.169.254",
    "100.64.0.1", "100.100.100.200", "198.18.0.1", "198.19.255.255", "192.0.0.1", "192.0.2.1", "198.51.100.1",
    "203.0.113.1", "224.0.0.1", "239.1.1.1", "240.0.0.1", "255.255.255.255", "192.88.99.1",
    "::", "::1", "fe80::1", "fe80::1%eth0", "fc00::1", "fd00:ec2::254", "fec0::1", "ff02::1", "2001:db8::1",
    "3fff::1", "100::1", "5f00::1",
]  # fmt: skip
WRAPPED = [
    "::ffff:127.0.0.1", "::ffff:a9fe:a9fe", "64:ff9b::a9fe:a9fe", "64:ff9b::7f00:1", "64:ff9b:1::7f00:1",
    "2002:7f00:1::", "2002:a9fe:a9fe::1", "2001:0:7f00:1::", "2001:0:0:0:0:0:80ff:fffe", "::127.0.0.1",
    "::ffff:0:127.0.0.1", "fe80::5efe:7f00:1",
]  # fmt: skip
PUBLIC = ["93.184.216.34", "1.1.1.1", "2606:4700::1111", "2a00:1450::1", "64:ff9b::101:101", "::ffff:1.1.1.1"]


@pytest.mark.parametrize(
    "url",
    [
        "ftp://example.com/", "file:///etc/passwd", "gopher://example.com/", "javascript:alert(1)", "data:text/plain,x",
        "//example.com/x", "example.com", "", "http:example.com", "http:/example.com", "httpx://example.com/",
        "unix:///run/x.sock", "https+unix://x/y",
    ],
)  # fmt: skip
async def test_only_http_and_https_are_requested(strict_client: HttpClient, url: str) -> None:
    """A1: only http and https, and loopback only where a setting allows it."""
    with pytest.raises(AddressRefused) as caught:
        await strict_client.request("GET", url)
    assert not caught.value.sent


@pytest.mark.parametrize("others", [["93.184.216.34", "127.0.0.1"], ["127.0.0.1"], ["2606:4700::1111", "::1"]])
async def test_all_addresses_of_a_name_are_checked(others: list[str]) -> None:
    """A2: all addresses of a name are checked, and the checked one is used."""
    client = HttpClient(resolver=Names(media_example=[others]))
    with pytest.raises(
        AddressRefused, match=r"^media\.example has the address .*, which is not on the public internet\.$"
    ):
        await client.request("GET", "http://media.example/x")
    await client.close()


async def test_an_address_that_is_refused_is_named_once(strict_client: HttpClient) -> None:
    with pytest.raises(AddressRefused, match=r"^169\.254\.169\.254 is not on the public internet\.$"):
        await strict_client.request("GET", "http://169.254.169.254/")


async def test_the_checked_address_is_the_one_connected_to() -> None:
    """A2: all addresses of a name are checked, and the checked one is used."""
    async with running(saying(answer(body=b"right"))) as right:
        # Asked again, the name would lead somewhere else.
        names = Names(media_example=[["127.0.0.1"], ["127.0.0.2"]])
        client = HttpClient(allowed_addresses=["127.0.0.1/32"], resolver=names)
        found = await client.request("GET", f"http://media.example:{right.port}/x")
        assert (found.body, names.asked) == (b"right", ["media.example"])
        right.close_connections()
        assert (await client.request("GET", f"http://media.example:{right.port}/x")).body == b"right"
        await client.close()


async def test_an_address_that_was_never_checked_is_refused_at_the_socket(client: HttpClient) -> None:
    """A2: all addresses of a name are checked, and the checked one is used."""
    async with running(saying(answer()), host="127.0.0.2") as forbidden:
        session = client._session("GET")
        connector = session.connector
        key = ("poisoned.example", forbidden.port)
        result = {"hostname": key[0], "host": "127.0.0.2", "port": forbidden.port, "proto": 0, "flags": 0}
        connector._cached_hosts.add(key, [result | {"family": socket.AF_INET}])  # type: ignore[union-attr]
        with pytest.raises(AddressRefused, match=r"127\.0\.0\.2"):
            await client.request("GET", f"http://poisoned.example:{forbidden.port}/")
        assert forbidden.connections == 0


@pytest.mark.parametrize(
    "place",
    [
        "http://127.0.0.2/", "http://169.254.169.254/latest/meta-data", "http://localhost.:1/", "file:///etc/passwd",
        "http://[::1]/", "//127.0.0.2/x", "http://user:pass@127.0.0.1/", "ftp://example.com/", "http://2130706433/",
        "http://[::ffff:127.0.0.2]/",
    ],
)  # fmt: skip
async def test_every_redirect_is_checked_again(place: str) -> None:
    """A3: every redirect is checked again."""
    client = HttpClient(allowed_addresses=["127.0.0.1/32"], resolver=Names(localhost_=[["127.0.0.3"]]))
    async with running(redirecting({"/start": "/again", "/again": place})) as server:
        with pytest.raises(AddressRefused) as caught:
            await client.request("GET", f"{server.url}/start", redirects=5)
        assert caught.value.sent
        with pytest.raises(AddressRefused):
            async with client.stream("GET", f"{server.url}/start", seconds=5, most_bytes=10):
                pass
    await client.close()


@pytest.mark.parametrize("address", WRAPPED)
def test_private_addresses_wrapped_in_others_are_refused(address: str) -> None:
    """A4: addresses wrapped in other addresses."""
    with pytest.raises(AddressRefused):
        AddressGuard().check(address, "host")
    # What is allowed is allowed as itself, not as something that wraps it in a tunnel.
    if not address.startswith(("::ffff:127", "64:ff9b::7f")):
        with pytest.raises(AddressRefused):
            AddressGuard(["127.0.0.0/8"]).check(address, "host")


@pytest.mark.parametrize("address", NOT_PUBLIC)
def test_shared_and_reserved_addresses_are_refused(address: str) -> None:
    """A5: shared, reserved and metadata addresses."""
    with pytest.raises(AddressRefused):
        AddressGuard().check(address, "host")


@pytest.mark.parametrize("address", PUBLIC)
def test_public_addresses_pass(address: str) -> None:
    AddressGuard().check(address, "host")


@pytest.mark.parametrize(
    "host",
    [
        "0177.0.0.1", "2130706433", "127.1", "127.0.1", "0x7f.0.0.1", "0x7f000001", "0x", "017700000001", "127.0.0.1.",
        "1.2.3.4.5", "256.1.1.1", "1.2.3", "0", "127.0.0.0x1", "example.0x7f", "8",
    ],
)  # fmt: skip
async def test_unusual_spellings_of_addresses_are_refused_before_a_look_up(host: str) -> None:
    """A6: unusual spellings of addresses."""
    names = Names()
    # Even where loopback is allowed.
    client = HttpClient(allowed_addresses=["loopback"], resolver=names)
    with pytest.raises(AddressRefused, match="usual form"):
        await client.request("GET", f"http://{host}/")
    assert names.asked == []
    await client.close()


@pytest.mark.parametrize(
    "url",
    [
        "http://good.example@127.0.0.1/", "http://user:password@good.example/", "http://good.example\\@127.0.0.1/",
        "http://127.0.0.1\\.good.example/", "http://good.example:80@127.0.0.1/", "http://good.example%2f@127.0.0.1/",
        "http://good.example\t/", "http://good.example\r\nHost: x/", " http://good.example/", "http://good.example /",
        "http://①②⑦.⓪.⓪.①/", "http://\uff45xample.com/", "http://good.example:0/", "http://good.example:99999/",
        "http://good.example:80:90/", "http://[::1", "http://[::1]x/", "http://[fe80::1%25eth0]/", "http:///x",
        "http://%31%32%37.0.0.1/", "http://good.example\x00/", "http://[::]/", "http://[::1.2.3.4.5]/",
        "http://good.example:\uff18\uff10/",
    ],
)  # fmt: skip
async def test_tricks_with_user_names_backslashes_and_alphabets_are_refused(url: str) -> None:
    """A7: tricks with user names, backslashes and fragments."""
    names = Names(good_example=[["93.184.216.34"]])
    client = HttpClient(resolver=names)
    with pytest.raises(AddressRefused):
        await client.request("GET", url)
    assert names.asked == []
    await client.close()


async def test_a_fragment_names_no_host(client: HttpClient) -> None:
    """A7: tricks with user names, backslashes and fragments."""
    async with running(saying(answer())) as server:
        await client.request("GET", f"{server.url}/path?a=b#@169.254.169.254/")
        assert server.received[0].path == "/path?a=b"
        assert server.received[0].headers["host"] == f"127.0.0.1:{server.port}"


CREDENTIALS = {"Authorization": "Bearer x", "Cookie": "a=b", "x-goog-api-key": "k", "X-Own": "1"}


async def seen(client: HttpClient, url: str, server: Server) -> dict[str, str]:
    await client.request("GET", url, headers=CREDENTIALS | {"Range": "bytes=0-1"}, redirects=3)
    return server.received[-1].headers


async def test_credentials_do_not_leave_their_origin(client: HttpClient) -> None:
    """A8: credentials and cookies stay with their origin."""
    async with running(saying(answer())) as other, running(redirecting({"/x": f"{other.url}/y", "/s": "/t"})) as server:
        elsewhere = await seen(client, f"{server.url}/x", other)
        assert not {name.lower() for name in CREDENTIALS} & set(elsewhere)
        assert elsewhere["range"] == "bytes=0-1"
        here = await seen(client, f"{server.url}/s", server)
        assert {name.lower() for name in CREDENTIALS} <= set(here)


async def test_cookies_are_not_kept(client: HttpClient) -> None:
    """A8: credentials and cookies stay with their origin."""
    async with running(saying(answer(headers={"Set-Cookie": "session=1; Path=/"}))) as server:
        for _ in range(2):
            await client.request("GET", server.url)
        assert "cookie" not in server.received[1].headers


async def test_proxy_variables_are_ignored(client: HttpClient, monkeypatch: pytest.MonkeyPatch) -> None:
    """A9: proxy variables of the environment."""
    async with running(saying(answer(body=b"direct"))) as server, running(saying(answer(body=b"proxy"))) as proxy:
        for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy", "HTTPS_PROXY", "https_proxy"):
            monkeypatch.setenv(name, proxy.url)
        assert (await client.request("GET", server.url)).body == b"direct"
        assert proxy.connections == 0


def test_only_the_guarded_client_opens_connections() -> None:
    """A11: One guard for result URLs, posters and webhooks: nothing beside `net` imports a client."""
    clients = re.compile(r"\n\s*(?:import|from) (aiohttp|httpx|requests|urllib3|urllib\.request|http\.client)\b")
    # The command line talks to its own server, whose address it reads from a file of the same user.
    # The client for programs is no part of the service.
    # The store's own address is the operator's, and may well be a private one.
    allowed = ("adapters/net/", "adapters/storage/s3_uploads.py", "cli/operator_access.py", "client/")
    for file in SOURCE.rglob("*.py"):
        place = file.relative_to(SOURCE).as_posix()
        if not place.startswith(allowed):
            assert not clients.search(file.read_text(encoding="utf-8")), place


async def test_loopback_is_refused_unless_a_setting_allows_it(strict_client: HttpClient) -> None:
    async with running(saying(answer(body=b"x"))) as server:
        with pytest.raises(AddressRefused) as caught:
            await strict_client.request("GET", server.url)
        assert "LONGTAKE_ALLOW_ADDRESSES" in caught.value.hint
        with pytest.raises(AddressRefused):
            await strict_client.request("GET", f"http://localhost:{server.port}/")
        assert server.connections == 0
        client = HttpClient(allowed_addresses=["", "loopback"])
        assert (await client.request("GET", f"http://localhost:{server.port}/")).body == b"x"
        await client.close()


async def test_a_name_without_addresses_is_transient() -> None:
    client = HttpClient(resolver=Names())
    with pytest.raises(HostUnresolved) as caught:
        await client.request("POST", "https://absent.example/")
    assert not caught.value.sent
    await client.close()


def test_a_url_is_sent_as_it_was_given() -> None:
    """A signed URL with its signature requoted would no longer be valid."""
    guard = AddressGuard()
    given = "https://media.example/a%2Fb~%7E+c/ü?X-Signature=a%2Bb%2f%7e==&x=%20+y"
    assert read_url(given, guard).url == given.replace("ü", "%C3%BC")
    assert read_url("HTTPS://Media.Example", guard).url == "https://media.example/"
    assert read_url("https://media.example?a=1", guard, {"b": "2 &"}).url == "https://media.example/?a=1&b=2+%26"


def test_origins() -> None:
    assert same_origin("https://a.example/x", "HTTPS://A.example:443/y?z")
    assert not same_origin("https://a.example/x", "http://a.example/x")
    assert not same_origin("https://a.example/x", "https://a.example:8443/x")
    assert not same_origin("https://a.example/x", "https://a.example@b.example/x")
    assert not same_origin("https://a.example/x", "https://a.example.b.example/x")
    assert not same_origin("nothing", "nothing")


def test_the_setting_takes_ranges_and_the_word_loopback() -> None:
    given = "10.1.0.0/16, loopback,::1/128"
    guard = AddressGuard(Settings(allow_addresses=given).allow_addresses.split(","))
    for address in ("10.1.2.3", "127.0.0.9", "::1", "::ffff:10.1.2.3"):
        guard.check(address, "host")
    for address in ("10.2.0.1", "169.254.169.254"):
        with pytest.raises(AddressRefused):
            guard.check(address, "host")
    AddressGuard(Settings().allow_addresses.split(","))
    for wrong in ("everything", "10.1.2.3/8", "loopback,127.1", "*"):
        with pytest.raises(ValidationError, match="neither `loopback` nor an address range"):
            Settings(allow_addresses=wrong)
