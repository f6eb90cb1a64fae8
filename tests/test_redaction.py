"""No secret survives, and nothing else is lost."""

import datetime
from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from longtake.redaction import MASK, names_a_secret, redact_text, redact_value

SECRET = "hunter2hunter2"


@pytest.mark.parametrize(
    "name",
    ["password", "db_password", "X-Api-Key", "apiKey", "accessToken", "Set-Cookie", "client_secret", "_token",
     "AWS_SECRET_ACCESS_KEY", "Authorization", "X-Amz-Signature", "refresh_token", "private-key"],
)  # fmt: skip
def test_names_of_secrets(name: str) -> None:
    assert names_a_secret(name)


@pytest.mark.parametrize(
    "name", ["key", "job_key", "max_tokens", "event", "job_id", "lane", "host", "tokenizer", "keyboard"]
)
def test_names_of_other_things(name: str) -> None:
    assert not names_a_secret(name)


@pytest.mark.parametrize(
    "text",
    [
        f"postgresql://longtake:{SECRET}@db.example:5432/longtake",
        f"cannot connect to postgresql://longtake:{SECRET}/with@slash@db.example/longtake now",
        f"GET https://user:{SECRET}@example.com/a failed",
        f"redis://:{SECRET}@localhost/0",
        f"https://api.example.com/v1?key={SECRET}&page=2",
        f"https://bucket.example.com/a.png?X-Amz-Credential={SECRET}&X-Amz-Signature={SECRET}",
        f"https://example.com/callback?access_token={SECRET}#top",
        f"host=db user=longtake password={SECRET} dbname=longtake",
        f"password='{SECRET} with spaces'",
        f'{{"user": "me", "password": "{SECRET}"}}',
        f"{{'api_key': '{SECRET}'}}",
        f"Authorization: Bearer {SECRET}",
        f"authorization: Basic {SECRET}",
        f"sent bearer {SECRET} to the server",
        f"Cookie: a=1; session={SECRET}; b=2",
        f"X-Api-Key: {SECRET}",
        f"url=https://example.com/?token={SECRET}",
        f"error: password={SECRET}",
        f'{{"body": "{{\\"password\\": \\"{SECRET}\\"}}"}}',
        f'"password": "a\\"{SECRET}"',
        f"password=a'{SECRET}",
        f'token = "{SECRET}',
    ],
)
def test_secrets_in_text_are_masked(text: str) -> None:
    redacted = redact_text(text)
    assert SECRET not in redacted
    assert "hunter2" not in redacted
    assert MASK in redacted


@pytest.mark.parametrize(
    "text",
    [
        "job 0199 of kind generation.poll done in 1.5 s",
        "GET http://127.0.0.1:8484/healthz?page=2 200",
        "https://example.com:443/path?email=somebody@example.com",
        "postgresql://localhost:5432/longtake",
        "sqlite:///longtake-data/longtake.db",
        "max_tokens=4096 key=poster:12 at 12:30:05",
    ],
)
def test_other_text_stays_as_it_is(text: str) -> None:
    assert redact_text(text) == text


def test_the_rest_of_an_address_stays_readable() -> None:
    assert redact_text(f"postgresql://longtake:{SECRET}@db/longtake") == f"postgresql://longtake:{MASK}@db/longtake"


def test_values_are_masked_by_name_at_any_depth() -> None:
    value = {"user": "me", "headers": {"Authorization": SECRET, "Accept": "*/*"}, "tries": [{"password": SECRET}, 2]}
    assert redact_value("request", value) == {
        "user": "me",
        "headers": {"Authorization": MASK, "Accept": "*/*"},
        "tries": [{"password": MASK}, 2],
    }


def test_a_secret_that_is_absent_is_shown_as_absent() -> None:
    assert redact_value("password", None) is None
    assert redact_value("has_password", value=True) is True


def test_objects_are_looked_at_as_text() -> None:
    @dataclass
    class Connection:
        url: str

    shown = redact_value("connection", Connection(f"postgresql://me:{SECRET}@db/x"))
    assert SECRET not in shown
    assert "Connection" in shown
    assert SECRET not in redact_value("error", ValueError(f"password={SECRET}"))


def test_an_object_that_cannot_show_itself_is_named() -> None:
    class Broken:
        def __repr__(self) -> str:
            raise RuntimeError

    assert redact_value("thing", Broken()) == "<Broken>"


def test_a_structure_that_holds_itself_ends() -> None:
    loop: dict[str, object] = {}
    loop["loop"] = loop
    assert "…" in str(redact_value("loop", loop))


def test_plain_values_keep_their_type() -> None:
    moment = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)
    assert redact_value("at", moment) is moment
    assert redact_value("seconds", 1.5) == 1.5


@pytest.mark.timeout(5)
@pytest.mark.parametrize("piece", ["a", "a.", "a://b:", "token=", "a=", "'", "password='", '\\"', "cookie:", "bearer "])
def test_long_texts_take_no_long_time(piece: str) -> None:
    redact_text("://" + piece * 20_000)


@given(st.from_regex(r"[!-~]{1,30}", fullmatch=True), st.sampled_from(["postgresql", "redis", "amqp"]))
def test_no_password_of_a_database_address_survives(password: str, scheme: str) -> None:
    # The host is what follows the last @, so that any password can be told from it.
    assert redact_text(f"{scheme}://u:{password}@host/db") == f"{scheme}://u:{MASK}@host/db"
