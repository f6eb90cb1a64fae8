"""Settings about keys and addresses: what is taken, what is refused, and that no secret is repeated."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from longtake.errors import SettingsError
from longtake.settings import describe_settings, load_settings

if TYPE_CHECKING:
    from pathlib import Path

SECRET = "hunter2-hunter2-hunter2-hunter2-hunter2"


def refusal(folder: Path, **environment: str) -> str:
    with pytest.raises(SettingsError) as refused:
        load_settings({f"LONGTAKE_{name}": value for name, value in environment.items()}, folder)
    return refused.value.message


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        ("https://media.example.com", "https://media.example.com"),
        ("https://media.example.com:8443/media/", "https://media.example.com:8443/media"),
        ("http://localhost:8484", "http://localhost:8484"),
        ("http://127.0.0.1", "http://127.0.0.1"),
        ("http://[::1]:8484/", "http://[::1]:8484"),
    ],
)
def test_a_public_address_has_one_spelling(tmp_path: Path, given: str, kept: str) -> None:
    assert load_settings({"LONGTAKE_PUBLIC_URL": given}, tmp_path).public_url == kept


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ("http://media.example.com", "must use https"),
        ("http://127.0.0.1.evil.example", "must use https"),
        ("media.example.com", "must start with"),
        ("ftp://media.example.com", "must start with"),
        ("https://", "must start with"),
        ("https://media.example.com?a=b", "must not contain ? or #"),
        ("https://media.example.com/#top", "must not contain ? or #"),
        ("https://media.example.com/a b", "path"),
        ("https://media.example.com/../x", "path"),
        ("https://media.example.com:x", "valid host and port"),
        ("https://media.example.com:99999", "valid host and port"),
        (f"https://alice:{SECRET}@media.example.com", "user name or password"),
        ("https://[::1", "valid"),
    ],
)
def test_a_public_address_that_cannot_work_is_refused(tmp_path: Path, given: str, reason: str) -> None:
    message = refusal(tmp_path, PUBLIC_URL=given)
    assert reason in message
    assert "LONGTAKE_PUBLIC_URL" in message
    assert SECRET not in message


@pytest.mark.parametrize("name", ["SECRET_KEY", "JWT_SECRET", "MASTER_KEY"])
def test_a_short_secret_is_refused_and_not_repeated(tmp_path: Path, name: str) -> None:
    message = refusal(tmp_path, **{name: SECRET[:31]})
    assert "at least 32 characters" in message
    assert "hunter2" not in message


@pytest.mark.parametrize("keys", [f"{SECRET},short", f"{SECRET},{SECRET}"])
def test_each_master_key_counts(tmp_path: Path, keys: str) -> None:
    message = refusal(tmp_path, MASTER_KEY=keys)
    assert "hunter2" not in message
    assert "short" not in message


def test_secrets_are_shown_as_set_and_nothing_else(tmp_path: Path) -> None:
    names = ("SECRET_KEY", "JWT_SECRET", "MASTER_KEY", "KIE_API_KEY", "GEMINI_API_KEY", "KIE_WEBHOOK_KEY")
    settings = load_settings({f"LONGTAKE_{name}": f" {SECRET} " for name in names}, tmp_path)
    assert settings.jwt_secret.get_secret_value() == SECRET
    shown = {row.key: row.value for row in describe_settings(settings)}
    assert {shown[name.lower()] for name in names} == {"***"}
    assert SECRET not in f"{settings!r}{settings}{shown}{settings.model_dump()}{settings.model_dump_json()}"


@pytest.mark.parametrize(
    "value", ["keys.json", "/etc/keys.json", "https://a.example/keys.json", "http://127.0.0.1:1/k"]
)
def test_a_key_set_is_a_file_or_a_safe_address(tmp_path: Path, value: str) -> None:
    assert load_settings({"LONGTAKE_JWT_JWKS": value}, tmp_path).jwt_jwks == value


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        ("http://a.example/keys.json", "must use https"),
        ("ftp://a.example/keys.json", "must be an https"),
        ("https://alice:x@a.example/keys.json", "user name or password"),
        ("https://[::1/keys", "valid URL"),
    ],
)
def test_a_key_set_that_others_could_change_on_the_way_is_refused(tmp_path: Path, value: str, reason: str) -> None:
    assert reason in refusal(tmp_path, JWT_JWKS=value)


def test_tokens_have_one_kind_of_key(tmp_path: Path) -> None:
    message = refusal(tmp_path, JWT_JWKS="keys.json", JWT_SECRET=SECRET)
    assert "together with jwt_secret" in message
    assert SECRET not in message
