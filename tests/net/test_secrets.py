"""TLS is verified, and nothing that could be a secret gets into errors (A8, A29)."""

from __future__ import annotations

import datetime
import ipaddress
import ssl
import traceback
from typing import TYPE_CHECKING

import aiohttp.connector
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from longtake.adapters.net import HttpClient, shown_url
from longtake.adapters.net.errors import AddressRefused, ConnectFailed, NetError
from tests.net.servers import Names, answer, hanging_up, redirecting, running, saying, saying_and_closing, silent

if TYPE_CHECKING:
    from pathlib import Path

CANARY = "canary7f3a"
SECRET_QUERY = f"/file.mp4?X-Amz-Signature={CANARY}&key={CANARY}"


@pytest.fixture
def certificate(tmp_path: Path) -> Path:
    """A certificate for 127.0.0.1 that nobody has signed but itself."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "loopback")])
    now = datetime.datetime.now(datetime.UTC)
    made = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    file = tmp_path / "certificate.pem"
    plain = serialization.NoEncryption()
    file.write_bytes(
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, plain)
        + made.public_bytes(serialization.Encoding.PEM)
    )
    return file


@pytest.fixture
def tls(certificate: Path) -> ssl.SSLContext:
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(certificate)
    return context


async def test_a_certificate_that_nobody_vouches_for_is_refused(client: HttpClient, tls: ssl.SSLContext) -> None:
    async with running(saying(answer()), tls=tls) as server:
        with pytest.raises(ConnectFailed, match="certificate") as caught:
            await client.request("POST", server.url + SECRET_QUERY)
        assert not caught.value.sent
        assert server.received == []


async def test_credentials_do_not_follow_a_redirect_from_https_to_http(
    client: HttpClient, tls: ssl.SSLContext, certificate: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A8: credentials and cookies stay with their origin."""
    trusting = ssl.create_default_context(cafile=str(certificate))
    monkeypatch.setattr(aiohttp.connector, "_SSL_CONTEXT_VERIFIED", trusting)
    async with running(saying(answer(body=b"x"))) as plain, running(redirecting({"/": plain.url}), tls=tls) as server:
        with pytest.raises(AddressRefused, match="from https to http"):
            await client.request("GET", server.url, headers={"x-goog-api-key": "k"}, redirects=2)
        assert plain.connections == 0
        assert (await client.request("GET", server.url, redirects=2)).body == b"x"


async def errors_of_all_kinds(client: HttpClient) -> list[NetError]:
    found: list[NetError] = []

    async def provoke(url: str, seconds: float = 2.0, **options: object) -> None:
        with pytest.raises(NetError) as caught:
            await client.request("GET", url, seconds=seconds, **options)  # type: ignore[arg-type]
        found.append(caught.value)

    for behaviour, seconds in (
        (silent, 0.1),
        (hanging_up, 2.0),
        (saying_and_closing(answer(body=b"x", headers={"Content-Length": "9"})), 2.0),
        (saying_and_closing(b"nonsense\r\n\r\n"), 2.0),
        (saying(answer(body=bytes(2_000_000))), 2.0),
        (saying(answer(302, headers={"Location": f"http://127.0.0.2{SECRET_QUERY}"})), 2.0),
        (saying(answer(302, headers={"Location": f"{CANARY}\\"})), 2.0),
        (saying(answer(302, headers={"Location": f"http://{CANARY}@127.0.0.1{SECRET_QUERY}"})), 2.0),
    ):
        async with running(behaviour) as server:
            address = server.url + SECRET_QUERY
            await provoke(address, seconds, redirects=2)
        await provoke(address)  # nobody listens there any more
    await provoke(f"https://absent.example{SECRET_QUERY}")
    await provoke(f"https://user:{CANARY}@media.example{SECRET_QUERY}")
    await provoke(f"https://media.example:99999{SECRET_QUERY}#{CANARY}")
    await provoke(f"ftp://{CANARY}/")
    await provoke(f"https://media.example{SECRET_QUERY} \n")
    return found


async def test_no_error_shows_a_signature_or_a_password() -> None:
    """A29: signed links in logs."""
    client = HttpClient(allowed_addresses=["127.0.0.1/32"], resolver=Names())
    found = await errors_of_all_kinds(client)
    await client.close()
    assert len({type(error) for error in found}) >= 7
    for error in found:
        text = "".join(traceback.format_exception(error)) + repr(error) + str(error) + error.hint + repr(error.facts)
        assert CANARY not in text, type(error)


def test_a_shown_url_is_scheme_host_and_path() -> None:
    assert shown_url(f"https://me:{CANARY}@a.example:1/b/c?d={CANARY}#{CANARY}") == "https://a.example:1/b/c"
    assert shown_url("https://a.example/\x1b[31m") == "https://a.example/�[31m"
    assert len(shown_url("https://a.example/" + "x" * 1000)) < 210
    assert shown_url(f"nonsense {CANARY}") == "The address"
