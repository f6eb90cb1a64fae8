"""Accounts and secrets as users meet them: real processes, real commands, and files searched afterwards."""

from __future__ import annotations

import io
import json
import sys
from typing import TYPE_CHECKING

import pytest

from longtake.server.server import require_keys_for_open_address
from longtake.services.accounts.errors import AuthenticationRequired
from longtake.settings import Settings
from tests.service.conftest import Commands
from tests.service.processes import Place, Server

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

CANARY = "canary-77aa-never-to-be-seen"
KIE_CANARY = "canary-from-the-settings-1234"
ADDRESSES = ["0.0.0.0", "::", "192.0.2.7", "media.internal", "[::]", "localhost.example.com"]  # noqa: S104 - refused


@pytest.fixture
def commands(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Commands:
    return Commands(monkeypatch, capsys)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Place:
    settings = {"LONGTAKE_KIE_WEBHOOK_KEY": KIE_CANARY, "LONGTAKE_LOG_LEVEL": "debug"}
    return Place(tmp_path_factory.mktemp("accounts"), settings)


@pytest.fixture(scope="module")
def server(place: Place) -> Iterator[Server]:
    with place.server_here() as running:
        yield running


def bearer(credential: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {credential.strip()}", "Content-Type": "application/json"}


@pytest.mark.parametrize("host", ADDRESSES)
def test_an_open_address_needs_keys_that_somebody_chose(host: str) -> None:
    with pytest.raises(AuthenticationRequired, match="lets others in"):
        require_keys_for_open_address(Settings(host=host))
    require_keys_for_open_address(Settings.model_validate({"host": host, "jwt_secret": "x" * 32}))
    require_keys_for_open_address(Settings(host=host, jwt_jwks="https://login.example.com/keys.json"))


@pytest.mark.parametrize("host", ["127.0.0.1", "127.0.0.9", "::1", "localhost", "LOCALHOST"])
def test_loopback_needs_none(host: str) -> None:
    require_keys_for_open_address(Settings(host=host))


def test_a_server_on_an_open_address_without_keys_does_not_start(tmp_path: Path) -> None:
    place = Place(tmp_path)
    ended = place.run("serve", "--host", "0.0.0.0")  # noqa: S104 - refused
    assert ended.returncode == 2
    assert "[AUTHENTICATION_REQUIRED]" in ended.stderr
    assert "LONGTAKE_JWT_SECRET" in ended.stderr
    assert not place.data.exists(), "nothing was opened, made or listened on"


def test_a_token_of_the_command_line_is_taken_by_the_server(commands: Commands, place: Place, server: Server) -> None:
    token = commands.at(place)("token", "--user", "alice")
    assert (token.code, token.errors) == (0, "")
    made = server.request("POST", "/v1/keys", b'{"name": "mine"}', bearer(token.output))
    assert made.status == 201
    operator = commands("token", "--user", "olga", "--role", "operator", "--json").json["token"]
    assert server.request("POST", "/v1/operator/lanes.list", b"", bearer(operator)).status == 200
    refused = server.request("POST", "/v1/operator/lanes.list", b"", bearer(token.output))
    assert (refused.status, refused.json["code"]) == (403, "FORBIDDEN")


@pytest.mark.parametrize(
    "arguments", [("--role", "root"), ("--user", ""), ("--user", "a\nb"), ("--hours", "0"), ("--hours", "x")]
)
def test_a_token_for_nobody_or_for_an_unknown_role_is_not_made(
    commands: Commands, place: Place, arguments: tuple[str, ...]
) -> None:
    ended = commands.at(place)("token", *arguments)
    assert (ended.code, ended.output) == (2, "")


def test_where_tokens_come_from_an_issuer_none_is_made_here(
    commands: Commands, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = Place(tmp_path, {"LONGTAKE_JWT_JWKS": "https://login.example.com/keys.json"})
    ended = commands.at(place)("token")
    assert (ended.code, ended.output) == (1, "")
    assert "[TOKENS_ELSEWHERE]" in ended.errors
    assert not place.data.exists()


def test_keys_are_made_listed_and_revoked_by_commands(commands: Commands, place: Place, server: Server) -> None:
    run = commands.at(place)
    made = run("keys", "create", "nightly", "--user", "bob", "--scope", "read", "--days", "9")
    assert made.code == 0
    key = made.output.strip()
    assert server.request("GET", "/v1/keys", headers=bearer(key)).status == 200
    (listed,) = run("keys", "list", "--user", "bob", "--json").json["keys"]
    assert (listed["name"], listed["scopes"], listed["prefix"]) == ("nightly", ["read"], key[:10])
    assert key not in run("keys", "list").output
    assert run("keys", "revoke", listed["id"]).code == 0
    assert server.request("GET", "/v1/keys", headers=bearer(key)).status == 401
    assert "nightly" not in run("keys", "list").output
    too_much = run("keys", "create", "x", "--scope", "admin")
    assert (too_much.code, too_much.output) == (2, "")


def test_a_stored_secret_appears_in_no_file_log_or_answer(
    commands: Commands, place: Place, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A28: secrets in errors, logs and files."""
    run = commands.at(place)
    monkeypatch.setattr(sys, "stdin", io.StringIO(f"{CANARY}\n"))
    said = [run("secrets", "set", "kie_api_key")]
    assert said[0].code == 0
    monkeypatch.setattr(sys, "stdin", io.StringIO(f"{CANARY}\x01"))
    said += [run("secrets", "set", "gemini_api_key")]
    assert said[1].code == 2
    said += [run("secrets", "list"), run("secrets", "list", "--json"), run("settings"), run("secrets", "rotate")]
    said += [run("health"), run("jobs", "list")]
    answers = [
        server.operate("secrets.set", name="kie_api_key", value=CANARY, other=CANARY),
        server.operate("secrets.set", name="kie_api_key", value=[CANARY]),
        server.operate("secrets.set", name="kie_api_key", valve=CANARY),
        server.request("POST", "/v1/operator/secrets.set", f'{{"value": "{CANARY}"'.encode(), bearer(server.token)),
        server.request("POST", "/v1/keys", json.dumps({"api_key": CANARY}).encode(), bearer(CANARY)),
        server.request("GET", "/v1/keys", headers=bearer(f"lt_{CANARY}")),
        server.request("GET", "/openapi.json"),
    ]
    assert [answer.status for answer in answers] == [422, 422, 422, 400, 401, 401, 200]
    written = [file.read_bytes() for file in place.folder.rglob("*") if file.is_file()]
    told = [f"{one.output}{one.errors}".encode() for one in said] + [answer.body for answer in answers]
    assert len(written) >= 5
    for canary in (CANARY, KIE_CANARY):
        assert not [content for content in written + told if canary.encode() in content]
    assert "kie_api_key" in said[2].output
    assert run("secrets", "remove", "kie_api_key").code == 0


def test_a_server_with_a_wrong_key_refuses_to_start_and_changes_nothing(
    commands: Commands, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A27: a wrong key."""
    place = Place(tmp_path, {"LONGTAKE_MASTER_KEY": "the right key of thirty-two characters"})
    run = commands.at(place)
    assert run("migrate", "up").code == 0
    monkeypatch.setattr(sys, "stdin", io.StringIO(CANARY))
    assert run("secrets", "set", "kie_api_key").code == 0
    before = run("secrets", "list", "--json").json
    place.settings["LONGTAKE_MASTER_KEY"] = "the wrong key of thirty-two characters"
    for command in ("serve", "worker"):
        ended = commands.at(place)(command)
        assert ended.code == 2
        assert "[VAULT_KEY_WRONG]" in ended.errors
        assert "kie_api_key" in ended.errors
        assert CANARY not in ended.errors + ended.output
    monkeypatch.setattr(sys, "stdin", io.StringIO("another"))
    assert commands.at(place)("secrets", "set", "kie_api_key").code == 2
    assert run("secrets", "list", "--json").json == before
