"""Forged tokens: what an attacker makes of public knowledge is refused, and refused without a reason."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import threading
from functools import partial
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import TYPE_CHECKING, Any

import pytest
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from joserfc.jwk import ECKey, OctKey, RSAKey

from longtake.services.accounts.errors import Unauthorized
from longtake.services.accounts.own_tokens import ExpectedClaims
from longtake.services.accounts.tokens import PublishedKeys, SharedSecret, Tokens, read_key_file
from tests.accounts.stage import SECRET, claims, signed

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.databases import StoppedClock

RSA = RSAKey.generate_key(2048, {"kid": "rsa-1"})
EC = ECKey.generate_key("P-256", {"kid": "ec-1"})
OTHER_RSA = RSAKey.generate_key(2048, {"kid": "rsa-1"})


def encoded(content: Any) -> str:
    raw = content if isinstance(content, bytes) else json.dumps(content).encode()
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()


@pytest.fixture
def shared(clock: StoppedClock) -> Tokens:
    return Tokens(SharedSecret(SECRET), ExpectedClaims(), clock)


@pytest.fixture
def key_set(tmp_path: Path) -> Path:
    file = tmp_path / "keys.json"
    file.write_text(json.dumps({"keys": [RSA.as_dict(private=False), EC.as_dict(private=False)]}))
    return file


@pytest.fixture
def published(key_set: Path, clock: StoppedClock) -> Tokens:
    return Tokens(PublishedKeys(partial(read_key_file, key_set), clock), ExpectedClaims(), clock)


async def assert_refused(tokens: Tokens, token: str) -> None:
    with pytest.raises(Unauthorized) as refused:
        await tokens.caller(token)
    assert refused.value.message == "The token or key is not valid."


async def test_tokens_of_each_kind_of_key_are_taken(shared: Tokens, published: Tokens, clock: StoppedClock) -> None:
    """Without this all the refusals below would prove nothing."""
    good = claims(clock)
    assert (await shared.caller(signed(good))).user_id == "alice"
    assert (await published.caller(signed(good, RSA, "RS256", {"kid": "rsa-1"}))).user_id == "alice"
    assert (await published.caller(signed(good, EC, "ES256", {"kid": "ec-1"}))).user_id == "alice"


@pytest.mark.parametrize("name", ["none", "None", "NONE", "nOnE", ""])
@pytest.mark.parametrize("signature", ["", "AA"])
async def test_a_token_without_an_algorithm_is_refused(
    shared: Tokens, published: Tokens, clock: StoppedClock, name: str, signature: str
) -> None:
    """A19: tokens with the algorithm `none`."""
    for header in ({"alg": name, "typ": "JWT"}, {"alg": name, "kid": "rsa-1"}, {"typ": "JWT"}):
        token = f"{encoded(header)}.{encoded(claims(clock))}.{signature}"
        await assert_refused(shared, token)
        await assert_refused(published, token)


@pytest.mark.parametrize("algorithm", ["HS256", "HS384", "HS512"])
async def test_a_token_signed_with_the_public_key_as_secret_is_refused(
    published: Tokens, clock: StoppedClock, algorithm: str
) -> None:
    """A20: tokens signed with a public key as a shared secret."""
    public = RSA.public_key
    forms = [
        public.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo),
        public.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo).strip(),
        public.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo),
        public.public_bytes(Encoding.PEM, PublicFormat.PKCS1),
        json.dumps(RSA.as_dict(private=False)).encode(),
    ]
    digest = {"HS256": hashlib.sha256, "HS384": hashlib.sha384, "HS512": hashlib.sha512}[algorithm]
    for secret in forms:
        # By hand: a library would refuse to sign with a public key.
        text = f"{encoded({'alg': algorithm, 'kid': 'rsa-1'})}.{encoded(claims(clock))}"
        signature = hmac.new(secret, text.encode(), digest).digest()
        await assert_refused(published, f"{text}.{encoded(signature)}")


async def test_a_shared_secret_in_a_key_set_is_ignored(tmp_path: Path, clock: StoppedClock) -> None:
    """A20: tokens signed with a public key as a shared secret."""
    secret = OctKey.generate_key(256, {"kid": "oct-1"})
    file = tmp_path / "mixed.json"
    file.write_text(json.dumps({"keys": [secret.as_dict(private=True), RSA.as_dict(private=False)]}))
    tokens = Tokens(PublishedKeys(partial(read_key_file, file), clock), ExpectedClaims(), clock)
    await assert_refused(tokens, signed(claims(clock), secret, "HS256", {"kid": "oct-1"}))
    assert (await tokens.caller(signed(claims(clock), RSA, "RS256", {"kid": "rsa-1"}))).user_id == "alice"


@pytest.mark.parametrize("algorithm", ["RS384", "RS512", "PS256"])
async def test_the_key_decides_the_algorithm(published: Tokens, clock: StoppedClock, algorithm: str) -> None:
    """A20: tokens signed with a public key as a shared secret."""
    await assert_refused(published, signed(claims(clock), RSA, algorithm, {"kid": "rsa-1"}))


async def test_a_token_of_one_key_is_refused_under_the_id_of_another(published: Tokens, clock: StoppedClock) -> None:
    """A20: tokens signed with a public key as a shared secret."""
    await assert_refused(published, signed(claims(clock), RSA, "RS256", {"kid": "ec-1"}))
    await assert_refused(published, signed(claims(clock), EC, "ES256", {"kid": "rsa-1"}))
    await assert_refused(published, signed(claims(clock), OTHER_RSA, "RS256", {"kid": "rsa-1"}))


async def test_a_key_id_is_compared_and_never_opened_as_a_file(
    published: Tokens, tmp_path: Path, clock: StoppedClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A21: The attacker knows what a file holds, signs with it, and names the file."""
    known = tmp_path / "empty"
    known.write_bytes(b"\0" * 32)
    monkeypatch.chdir(tmp_path)
    secret = OctKey.import_key(known.read_bytes())
    for kid in (str(known), "empty", "../empty", f"file://{known}", "/dev/null", "' OR 1=1 --", "rsa-1\0"):
        await assert_refused(published, signed(claims(clock), secret, "HS256", {"kid": kid}))
        await assert_refused(published, signed(claims(clock), OTHER_RSA, "RS256", {"kid": kid}))


async def test_a_key_id_must_be_text(shared: Tokens, published: Tokens, clock: StoppedClock) -> None:
    """A21: a key id that is a path."""
    for kid in (1, ["rsa-1"], {"kid": "rsa-1"}, True):
        token = f"{encoded({'alg': 'RS256', 'kid': kid})}.{encoded(claims(clock))}.AAAA"
        await assert_refused(published, token)
        await assert_refused(shared, token)


class _Attacker(BaseHTTPRequestHandler):
    asked: list[str]

    def do_GET(self) -> None:
        type(self).asked.append(self.path)
        body = json.dumps({"keys": [OTHER_RSA.as_dict(private=False)]}).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_arguments: Any) -> None:
        pass


@pytest.fixture
def attackers_server() -> Iterator[tuple[str, list[str]]]:
    asked: list[str] = []
    handler = type("Handler", (_Attacker,), {"asked": asked})
    with HTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield f"http://127.0.0.1:{server.server_address[1]}", asked
        server.shutdown()
        thread.join()


async def test_keys_in_or_behind_a_token_are_ignored(
    published: Tokens, shared: Tokens, clock: StoppedClock, attackers_server: tuple[str, list[str]]
) -> None:
    """A23: keys that a token brings itself."""
    address, asked = attackers_server
    brought = OTHER_RSA.as_dict(private=False)
    for extra in (
        {"jku": f"{address}/keys.json"},
        {"x5u": f"{address}/certificate.pem"},
        {"jwk": {name: brought[name] for name in ("kty", "n", "e")}},
        {"x5c": ["AAAA"], "x5t": "AAAA"},
    ):
        for kid in ({}, {"kid": "rsa-1"}, {"kid": "unknown"}):
            token = signed(claims(clock), OTHER_RSA, "RS256", {**extra, **kid})
            await assert_refused(published, token)
            await assert_refused(shared, token)
    assert asked == []


async def test_a_valid_token_may_carry_an_address_in_its_header(
    published: Tokens, clock: StoppedClock, attackers_server: tuple[str, list[str]]
) -> None:
    """A23: keys that a token brings itself."""
    address, asked = attackers_server
    token = signed(claims(clock), RSA, "RS256", {"kid": "rsa-1", "jku": f"{address}/keys.json", "own": "member"})
    assert (await published.caller(token)).user_id == "alice"
    assert asked == []


async def test_an_extension_that_must_be_understood_and_is_not_is_refused(
    published: Tokens, clock: StoppedClock
) -> None:
    text = f"{encoded({'alg': 'RS256', 'kid': 'rsa-1', 'crit': ['b64'], 'b64': False})}.{encoded(claims(clock))}"
    await assert_refused(published, f"{text}.AAAA")


async def test_a_changed_token_is_refused(shared: Tokens, clock: StoppedClock) -> None:
    header, body, signature = signed(claims(clock)).split(".")
    await assert_refused(shared, f"{header}.{encoded(claims(clock, role='admin'))}.{signature}")
    await assert_refused(shared, f"{header}.{body}.{signature[:-4]}")
    await assert_refused(shared, f"{header}.{body}.")
    await assert_refused(shared, signed(claims(clock), OctKey.import_key(b"another secret of 32 characters!")))


@pytest.mark.parametrize(
    "token",
    [
        "", ".", "..", "...", "a.b.c", "a.b.c.d.e", "\N{SNOWMAN}.a.b", "=.=.=", "e30.e30.",
        "bnVsbA.e30.AA", "W10.e30.AA",
        base64.urlsafe_b64encode(b'{"alg":' * 100).decode() + ".e30.AA",
        base64.urlsafe_b64encode(b"[" * 3000).decode() + ".e30.AA",
        base64.urlsafe_b64encode(b'{"alg":' + b"9" * 2900 + b"}").decode() + ".e30.AA",
        "eyJhbGciOiJIUzI1NiJ9." + "A" * 9000 + ".AA",
        "eyJhbGciOiJIUzI1NiJ9.e30.AA, eyJhbGciOiJIUzI1NiJ9.e30.AA",
    ],
)  # fmt: skip
async def test_what_is_no_token_is_refused_whatever_it_is(shared: Tokens, published: Tokens, token: str) -> None:
    await assert_refused(shared, token)
    await assert_refused(published, token)


async def test_claims_that_are_no_object_are_refused(shared: Tokens) -> None:
    for content in (b"[]", b"null", b'"alice"', b"1", b"[" * 2000, b"\xff"):
        text = f"{encoded({'alg': 'HS256'})}.{encoded(content)}"
        signature = hmac.new(SECRET, text.encode(), hashlib.sha256).digest()
        await assert_refused(shared, f"{text}.{encoded(signature)}")
