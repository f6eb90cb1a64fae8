"""Keys never come back, not even when a provider repeats them (A28, A29)."""

from __future__ import annotations

import traceback
from urllib.parse import quote

import orjson
import pytest

from longtake.adapters.net import HttpClient
from longtake.adapters.providers.calls import plain_words
from longtake.adapters.providers.provider import Failed, MediaUrl, Reference
from longtake.adapters.providers.registry import build_providers
from longtake.errors import LongtakeError
from longtake.settings import Settings
from tests.net.servers import Behaviour, answer, hanging_up, running, saying
from tests.providers.asking import NAMES, OF_KIE, WITH_TASKS, request

CANARY = "AIzaCanary/7f3a+x"
TASK = {"kie": "t", "kie_veo": "t", "gemini_veo": "models/veo/operations/1"}


def repeating(name: str, status: int) -> bytes:
    """Return an error of the provider that repeats our key."""
    text = f"The key {CANARY} ({quote(CANARY, safe='')}) is wrong; Authorization: Bearer {CANARY}"
    shape = {"code": status, "msg": text} if name in OF_KIE else {"error": {"message": text, "status": CANARY}}
    return answer(status, orjson.dumps(shape))


def failing(name: str) -> bytes:
    """Return the record of a task that failed, with our key in the reason."""
    if name == "gemini_veo":
        return answer(
            body=orjson.dumps({"name": TASK[name], "done": True, "error": {"message": f"{CANARY}!", "status": CANARY}})
        )
    data = {
        "state": "fail",
        "failCode": CANARY,
        "errorCode": CANARY,
        "failMsg": f"{CANARY}!",
        "successFlag": 2,
        "errorMessage": f"{CANARY}!",
    }
    return answer(body=orjson.dumps({"code": 200, "data": data}))


def shown(error: LongtakeError) -> str:
    formatted = "".join(traceback.format_exception(error))
    return formatted + repr(error) + error.hint + repr(error.facts) + repr(vars(error))


async def errors(client: HttpClient, name: str, behaviour: Behaviour) -> list[LongtakeError]:
    async with running(behaviour) as server:
        settings = Settings(kie_base_url=server.url, gemini_base_url=server.url)
        provider = build_providers(settings, client, lambda _name: CANARY)[name]
        found: list[LongtakeError] = []
        with pytest.raises(LongtakeError) as caught:
            await provider.submit(request(name))
        found.append(caught.value)
        if name in WITH_TASKS:
            with pytest.raises(LongtakeError) as caught:
                await provider.query(TASK[name])
            found.append(caught.value)
        # The canary is not idle: it was really sent.
        assert CANARY in "".join(server.received[0].headers.values())
        return found


@pytest.mark.parametrize("name", NAMES)
async def test_no_error_contains_the_key(client: HttpClient, name: str) -> None:
    """A28: secrets in errors, logs and files."""
    behaviours = [saying(repeating(name, status)) for status in (400, 401, 402, 404, 409, 422, 429, 455, 500, 503, 505)]
    behaviours += [hanging_up, saying(answer(500, CANARY.encode())), saying(answer(200, CANARY.encode()))]
    for behaviour in behaviours:
        for error in await errors(client, name, behaviour):
            assert CANARY not in shown(error)
            assert quote(CANARY, safe="") not in shown(error)


@pytest.mark.parametrize("name", WITH_TASKS)
async def test_no_reason_of_a_failure_contains_the_key(client: HttpClient, name: str) -> None:
    """A28: secrets in errors, logs and files."""
    async with running(saying(failing(name))) as server:
        settings = Settings(kie_base_url=server.url, gemini_base_url=server.url)
        found = await build_providers(settings, client, lambda _name: CANARY)[name].query(TASK[name])
        assert found == Failed("***", "***!")


def test_texts_of_providers_are_made_fit_to_be_shown() -> None:
    assert plain_words("a\x00b\x1b[31m\n\tc\u202ed  e") == "a b [31m c d e"
    assert plain_words("x" * 501) == "x" * 499 + "…"
    assert plain_words("x" * 500) == "x" * 500
    assert plain_words("secret " * 3000 + CANARY, CANARY).count("canary") == 0
    assert plain_words("see https://me:pass@a.example/?token=abc") == "see https://me:***@a.example/?token=***"
    assert plain_words(None) == plain_words(["x"]) == plain_words("") == ""
    assert plain_words(42) == "42"
    assert plain_words("fine", "") == "fine"


def test_addresses_and_bytes_are_not_shown_when_answers_are_logged() -> None:
    assert "signature" not in repr(MediaUrl("https://a.example/?signature=1"))
    assert "body" not in repr(Reference("image/png", None, b"body"))
