"""Callbacks are hints, and only from those who know the key (F50)."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import hmac
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import orjson
import pytest

from longtake.adapters.providers.kie import Kie, callback_task_id, is_signed
from tests.net.servers import Received, answer, running
from tests.providers.asking import OF_GEMINI, OF_KIE, accepted
from tests.sandbox_process import WEBHOOK_KEY
from tests.wait import PATIENCE_SECONDS

if TYPE_CHECKING:
    from longtake.adapters.net import HttpClient
    from longtake.adapters.providers.provider import Provider
    from tests.sandbox_process import SandboxProcess

NOW = datetime(2026, 3, 1, 12, 0, 0, tzinfo=UTC)
SECOND = int(NOW.timestamp())


def signed(task_id: str, timestamp: str, key: str = WEBHOOK_KEY) -> dict[str, str]:
    made = hmac.new(key.encode(), f"{task_id}.{timestamp}".encode(), hashlib.sha256).digest()
    return {"X-Webhook-Timestamp": timestamp, "X-Webhook-Signature": base64.b64encode(made).decode()}


class Listener:
    """Takes callbacks."""

    def __init__(self) -> None:
        self.heard: asyncio.Queue[Received] = asyncio.Queue()

    async def __call__(self, request: Received, writer: asyncio.StreamWriter) -> None:
        writer.write(answer(200))
        self.heard.put_nowait(request)

    async def next(self) -> Received:
        return await asyncio.wait_for(self.heard.get(), PATIENCE_SECONDS)


@pytest.mark.parametrize("name", OF_KIE)
@pytest.mark.parametrize("prompt", ["a lighthouse", "[fail] a lighthouse"])
async def test_a_real_callback_names_its_task_and_is_signed(
    providers: dict[str, Provider], name: str, prompt: str
) -> None:
    listener, provider = Listener(), providers[name]
    async with running(listener) as server:
        task_id = await accepted(provider, prompt, callback_url=f"{server.url}/v1/callbacks/kie/reference")
        heard = await listener.next()
        assert provider.callback_task_id(orjson.loads(heard.body)) == task_id
        assert provider.verify_callback(heard.headers, task_id)
        assert not provider.verify_callback(heard.headers, task_id + "x")
        assert not provider.verify_callback({}, task_id)


async def test_a_forged_callback_is_refused_and_a_duplicate_accepted(
    providers: dict[str, Provider], sandbox: SandboxProcess
) -> None:
    """F50: duplicate, early and forged callbacks."""
    listener, provider = Listener(), providers["kie"]
    async with running(listener) as server:
        task_id = await accepted(provider, callback_url=f"{server.url}/callback")
        assert provider.verify_callback((await listener.next()).headers, task_id)
        for kind, genuine in (("forged", False), ("duplicate", True)):
            await asyncio.to_thread(sandbox.callback, task_id, kind)
            heard = await listener.next()
            assert provider.callback_task_id(orjson.loads(heard.body)) == task_id
            assert provider.verify_callback(heard.headers, task_id) is genuine


@pytest.mark.parametrize(
    ("timestamp", "genuine"),
    [
        (str(SECOND), True), (str(SECOND - 300), True), (str(SECOND + 300), True), (str(SECOND * 1000), True),
        (str(SECOND - 301), False), (str(SECOND + 301), False), ("", False), ("0", False), ("-1", False),
        ("1e9", False), ("9" * 30, False), ("²", False), (f" {SECOND}", False),
    ],
)  # fmt: skip
def test_a_signature_is_valid_for_five_minutes(timestamp: str, genuine: bool) -> None:
    """F50: duplicate, early and forged callbacks."""
    assert is_signed(signed("task", timestamp), "task", WEBHOOK_KEY, NOW) is genuine


def test_any_other_signature_is_refused() -> None:
    """F50: duplicate, early and forged callbacks."""
    good = signed("task", str(SECOND))
    assert is_signed({name.lower(): value for name, value in good.items()}, "task", WEBHOOK_KEY, NOW)
    for signature in ("", "x", good["X-Webhook-Signature"][:-2], good["X-Webhook-Signature"].lower(), "é" * 44):
        assert not is_signed({**good, "X-Webhook-Signature": signature}, "task", WEBHOOK_KEY, NOW)
    assert not is_signed(good, "other", WEBHOOK_KEY, NOW)
    assert not is_signed(good, "task", "another key", NOW)
    assert not is_signed({**good, "X-Webhook-Timestamp": str(SECOND + 1)}, "task", WEBHOOK_KEY, NOW)


async def test_without_a_webhook_key_every_callback_is_a_hint(client: HttpClient) -> None:
    provider = Kie(client, "https://api.kie.ai", lambda: "key")
    assert provider.verify_callback({}, "task", NOW)
    guarded = Kie(client, "https://api.kie.ai", lambda: "key", lambda: WEBHOOK_KEY)
    assert not guarded.verify_callback({}, "task", NOW)
    assert guarded.verify_callback(signed("task", str(SECOND)), "task", NOW)


@pytest.mark.parametrize(
    ("body", "task_id"),
    [
        ({"code": 200, "data": {"taskId": "a"}}, "a"),
        ({"code": 501, "data": {"task_id": "b", "state": "fail"}}, "b"),
        ({"taskId": "c"}, "c"),
        ({"task_id": "d", "data": None}, "d"),
        ({"data": {"taskId": ""}}, None),
        ({"data": {"taskId": 7}}, None),
        ({"data": {"taskId": "x" * 201}}, None),
        ({"data": {"taskId": "a\nb"}}, None),
        ({"data": ["taskId"]}, None),
        ({}, None), ([], None), ("taskId", None), (None, None), (7, None),
    ],
)  # fmt: skip
def test_the_task_of_a_callback(body: Any, task_id: str | None) -> None:
    assert callback_task_id(body) == task_id


def test_gemini_has_no_callbacks(providers: dict[str, Provider]) -> None:
    for name in OF_GEMINI:
        assert providers[name].callback_task_id({"data": {"taskId": "a"}}) is None
