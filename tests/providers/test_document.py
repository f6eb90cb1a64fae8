"""The adapter in the document works as it stands there."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import orjson
import pytest

from longtake.adapters.providers.errors import (
    ProviderBusy,
    ProviderRefused,
    ProviderUnauthorized,
    ProviderUnavailable,
    SubmitUnknown,
)
from longtake.adapters.providers.provider import (
    Accepted,
    Failed,
    GenerationRequest,
    MediaUrl,
    Provider,
    Running,
    Strange,
    Succeeded,
)
from tests.net.servers import Received, answer, hanging_up, running, saying

if TYPE_CHECKING:
    from longtake.adapters.net import HttpClient

DOCUMENT = Path(__file__).parent.parent.parent / "docs" / "providers.md"
REQUEST = GenerationRequest("mill-1", "a lighthouse", {"size": 2})


def adapter(client: HttpClient, url: str) -> Provider:
    (example,) = re.findall(r"```python\n(.*?)```", DOCUMENT.read_text(encoding="utf-8"), flags=re.DOTALL)
    names: dict[str, Any] = {}
    exec(example, names)  # noqa: S102 - the document's own example
    made: Provider = names["Pixmill"](client, url, lambda: "key")
    return made


def told(**content: Any) -> bytes:
    return answer(body=orjson.dumps(content))


async def test_the_example_makes_an_image(client: HttpClient) -> None:
    states = [
        told(id="job-1"), told(status="queued"), told(status="ready", image="https://files.example/1.png"),
        told(status="error", reason="DARK", text="Too dark."), told(status="dreaming"),
    ]  # fmt: skip

    async def mill(_request: Received, writer: asyncio.StreamWriter) -> None:
        writer.write(states.pop(0))

    async with running(mill) as server:
        provider = adapter(client, server.url)
        assert provider.configured
        assert await provider.submit(REQUEST) == Accepted("job-1")
        assert await provider.query("job-1") == Running(None, "queued")
        assert await provider.query("job-1") == Succeeded([MediaUrl("https://files.example/1.png")], 3600)
        assert await provider.query("job-1") == Failed("DARK", "Too dark.")
        assert await provider.query("job-1") == Strange("dreaming")
        assert [received.path for received in server.received] == ["/jobs"] + ["/jobs?id=job-1"] * 4
        assert orjson.loads(server.received[0].body) == {"model": "mill-1", "text": "a lighthouse", "size": 2}
        assert server.received[0].headers["authorization"] == "Key key"


async def test_the_example_tells_trouble_apart(client: HttpClient) -> None:
    for said, expected in (
        (answer(429, b'{"text": "slow down"}', {"Retry-After": "3"}), ProviderBusy),
        (answer(422, b'{"text": "no such size"}'), ProviderRefused),
        (answer(401, b"<html>"), ProviderUnauthorized),
        (answer(502, b"<html>"), SubmitUnknown),
        (told(), SubmitUnknown),
    ):
        async with running(saying(said)) as server:
            with pytest.raises(expected):
                await adapter(client, server.url).submit(REQUEST)
    async with running(hanging_up) as server:
        with pytest.raises(SubmitUnknown):
            await adapter(client, server.url).submit(REQUEST)
        with pytest.raises(ProviderUnavailable):
            await adapter(client, server.url).query("job-1")


def test_every_provider_and_error_is_in_the_document(providers: dict[str, Provider]) -> None:
    text = DOCUMENT.read_text(encoding="utf-8")
    rows = {
        cells[1].strip(" `"): [cell.strip(" `") for cell in cells]
        for cells in (line.split("|") for line in text.splitlines())
        if len(cells) > 2
    }
    for name, provider in providers.items():
        assert rows[name][3:5] == [provider.account, provider.submits]
        assert rows[name][5] == {"url": "URLs", "bytes": "bytes"}[str(provider.takes_references)]
    from longtake.adapters.providers.errors import ProviderError

    for error in ProviderError.__subclasses__():
        if error.__module__.startswith("longtake."):
            assert error.__name__ in rows
