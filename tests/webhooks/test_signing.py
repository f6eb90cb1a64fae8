"""Signatures as the standard's own library reads them."""

from __future__ import annotations

import base64
import time

import pytest
from standardwebhooks import Webhook, WebhookVerificationError

from longtake.services.webhooks.signatures import new_secret, signed_headers

BODY = b'{"type": "task.completed"}'


def headers(*secrets: str, age: int = 0) -> dict[str, str]:
    return signed_headers(secrets, "0199c1f2", int(time.time()) - age, BODY)


def test_a_secret_is_32_random_bytes() -> None:
    one, other = new_secret(), new_secret()
    assert one != other
    assert one.startswith("whsec_")
    assert len(base64.b64decode(one.removeprefix("whsec_"), validate=True)) == 32


def test_the_library_verifies_what_we_sign() -> None:
    secret = new_secret()
    assert headers(secret)["webhook-id"] == "msg_0199c1f2"
    assert Webhook(secret).verify(BODY, headers(secret)) == {"type": "task.completed"}


def test_while_two_secrets_count_either_verifies() -> None:
    old, new = new_secret(), new_secret()
    for secret in (old, new):
        assert Webhook(secret).verify(BODY, headers(new, old))
    with pytest.raises(WebhookVerificationError):
        Webhook(old).verify(BODY, headers(new))


def test_what_was_changed_or_is_old_is_refused() -> None:
    secret = new_secret()
    good = headers(secret)
    later = {**good, "webhook-timestamp": str(int(good["webhook-timestamp"]) + 1)}
    renamed = {**good, "webhook-id": "msg_other"}
    for body, given in ((BODY + b" ", good), (BODY, later), (BODY, renamed), (BODY, headers(secret, age=600))):
        with pytest.raises(WebhookVerificationError):
            Webhook(secret).verify(body, given)
