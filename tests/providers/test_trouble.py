"""Faults of providers as adapters see them: what was accepted, what was not, and what nobody knows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from longtake.adapters.net import HttpClient
from longtake.adapters.providers.errors import (
    ProviderBusy,
    ProviderError,
    ProviderOutOfCredits,
    ProviderQuotaSpent,
    ProviderRefused,
    ProviderTaskNotFound,
    ProviderUnauthorized,
    ProviderUnavailable,
    SubmitUnknown,
)
from longtake.adapters.providers.provider import Failed, Provider
from longtake.adapters.providers.registry import build_providers
from longtake.settings import Settings
from tests.net.servers import answer, running, saying
from tests.providers.asking import NAMES, OF_GEMINI, OF_KIE, WITH_TASKS, Keys, accepted, request

if TYPE_CHECKING:
    from tests.sandbox_process import SandboxProcess

Providers = dict[str, Provider]


def pointed_at(url: str, client: HttpClient) -> Providers:
    """Return adapters for a server that says what a test wants."""
    return build_providers(Settings(kie_base_url=url, gemini_base_url=url), client, lambda _name: "key")


async def error_of_submit(provider: Provider) -> ProviderError:
    with pytest.raises(ProviderError) as caught:
        await provider.submit(request(provider.name))
    assert caught.value.provider == provider.name
    assert caught.value.message.startswith(("The account", provider.name))
    return caught.value


async def error_of_query(provider: Provider, task_id: str) -> ProviderError:
    with pytest.raises(ProviderError) as caught:
        await provider.query(task_id)
    return caught.value


#: What a provider says in its own shape: nothing was accepted.
SHAPED: list[tuple[dict[str, Any], list[str], type[ProviderError], type[ProviderError]]] = [
    ({"status": 500}, NAMES, ProviderUnavailable, ProviderUnavailable),
    ({"status": 503}, NAMES, ProviderUnavailable, ProviderUnavailable),
    ({"status": 429}, NAMES, ProviderBusy, ProviderBusy),
    ({"status": 401}, NAMES, ProviderUnauthorized, ProviderUnauthorized),
    ({"status": 404}, NAMES, ProviderRefused, ProviderTaskNotFound),
    ({"code": 429}, OF_KIE, ProviderBusy, ProviderBusy),
    ({"code": 433}, OF_KIE, ProviderBusy, ProviderBusy),
    ({"code": 401}, OF_KIE, ProviderUnauthorized, ProviderUnauthorized),
    ({"code": 402}, OF_KIE, ProviderOutOfCredits, ProviderOutOfCredits),
    ({"code": 404}, OF_KIE, ProviderRefused, ProviderTaskNotFound),
    ({"code": 422}, OF_KIE, ProviderRefused, ProviderTaskNotFound),
    ({"code": 455}, OF_KIE, ProviderUnavailable, ProviderUnavailable),
    ({"code": 500}, OF_KIE, ProviderUnavailable, ProviderUnavailable),
    ({"code": 505}, OF_KIE, ProviderRefused, ProviderRefused),
    ({"status": 403}, OF_GEMINI, ProviderUnauthorized, ProviderUnauthorized),
    ({"status": 400}, OF_GEMINI, ProviderRefused, ProviderRefused),
    ({"status": 504}, OF_GEMINI, SubmitUnknown, ProviderUnavailable),
]


@pytest.mark.parametrize(("fault", "names", "of_submit", "of_query"), SHAPED)
async def test_an_error_in_the_providers_own_format_is_an_answer(
    providers: Providers,
    sandbox: SandboxProcess,
    fault: dict[str, Any],
    names: list[str],
    of_submit: type[ProviderError],
    of_query: type[ProviderError],
) -> None:
    """F36: a provider answers 5xx."""
    for name in names:
        task_id = await accepted(providers[name], "[never]") if name in WITH_TASKS else ""
        before = len(sandbox.tasks())
        sandbox.faults("status", **fault)
        assert type(await error_of_submit(providers[name])) is of_submit
        if name in WITH_TASKS:
            assert type(await error_of_query(providers[name], task_id)) is of_query
        assert len(sandbox.tasks()) == before
        sandbox.clear_faults()


@pytest.mark.parametrize("name", OF_KIE)
async def test_a_generation_that_failed_is_refused_at_submit_and_failed_at_query(
    providers: Providers, sandbox: SandboxProcess, name: str
) -> None:
    task_id = await accepted(providers[name], "[never]")
    sandbox.faults("status", code=501, message="Generation failed: too dark.")
    error = await error_of_submit(providers[name])
    assert isinstance(error, ProviderRefused)
    assert (error.fail_code, "too dark" in error.message) == ("501", True)
    assert await providers[name].query(task_id) == Failed("501", "Generation failed: too dark.")


UNKNOWN: list[dict[str, Any]] = [
    {"kind": "drop"},
    {"kind": "accept_then_drop"},
    {"kind": "truncated"},
    {"kind": "html"},
    {"kind": "garbage"},
    {"kind": "empty"},
    {"kind": "endless"},
    {"kind": "status", "status": 500, "body": "text"},
    {"kind": "status", "status": 500, "body": "html", "after": True},
    {"kind": "status", "status": 502, "body": "html"},
    {"kind": "status", "status": 503, "body": "html"},
    {"kind": "status", "status": 504, "body": "text", "after": True},
    {"kind": "missing", "fields": ["data.taskId", "name", "candidates"]},
    {"kind": "missing", "fields": ["data", "name", "candidates"]},
    {"kind": "replace", "replace": {"data": {"taskId": 7}, "name": 7, "candidates": None}},
    {"kind": "replace", "replace": {"data": {"taskId": "x" * 300}, "name": "../x", "candidates": [7]}},
]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("fault", UNKNOWN)
async def test_a_submit_that_may_have_been_accepted_is_unknown(
    providers: Providers, sandbox: SandboxProcess, name: str, fault: dict[str, Any]
) -> None:
    """F38: a submit times out."""
    providers[name]._calls.submit_bytes = 500_000  # type: ignore[attr-defined]
    sandbox.faults(**fault, route="submit")
    error = await error_of_submit(providers[name])
    assert type(error) is SubmitUnknown
    assert "may have accepted" in error.message
    # Nothing was repeated behind the caller's back.
    assert len(sandbox.calls(route="submit")) == 1


@pytest.mark.parametrize("name", NAMES)
async def test_a_submit_that_is_not_answered_in_time_is_unknown(
    providers: Providers, sandbox: SandboxProcess, name: str
) -> None:
    """F38: a submit times out."""
    providers[name]._calls.submit_seconds = 0.4  # type: ignore[attr-defined]
    before = len(sandbox.tasks())
    sandbox.faults("accept_then_hang", route="submit")
    assert type(await error_of_submit(providers[name])) is SubmitUnknown
    assert len(sandbox.tasks()) == before + 1


@pytest.mark.parametrize("name", NAMES)
async def test_a_submit_that_cannot_have_arrived_is_not_unknown(client: HttpClient, name: str) -> None:
    async with running(saying(answer())) as server:
        closed = server.url
    assert type(await error_of_submit(pointed_at(closed, client)[name])) is ProviderUnavailable
    unresolved = pointed_at("https://provider.invalid", client)[name]
    assert type(await error_of_submit(unresolved)) is ProviderUnavailable


@pytest.mark.parametrize("name", NAMES)
async def test_a_base_url_that_the_guard_refuses_names_the_setting(name: str) -> None:
    strict = HttpClient()
    error = await error_of_submit(pointed_at("http://127.0.0.1:9", strict)[name])
    assert type(error) is ProviderUnavailable
    assert "LONGTAKE_ALLOW_ADDRESSES" in error.hint
    await strict.close()


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(
    ("said", "expected"),
    [
        (answer(503, b"busy", {"Retry-After": "7"}), ProviderUnavailable),
        (answer(429, b"slow down"), ProviderBusy),
        (answer(408, b""), ProviderUnavailable),
        (answer(401, b"<html>"), ProviderUnauthorized),
        (answer(403, b"<html>"), ProviderUnauthorized),
        (answer(413, b"<html>"), ProviderRefused),
        (answer(404, b"<html>"), ProviderRefused),
        (answer(302, b"", {"Location": "https://elsewhere.example/"}), ProviderUnavailable),
        (answer(200, b"[]"), SubmitUnknown),
        (answer(200, b"null"), SubmitUnknown),
        (answer(200, b"{}"), SubmitUnknown),
        (answer(500, b'{"timestamp": 1, "status": 500, "error": "Internal Server Error"}'), SubmitUnknown),
        (answer(502, b'{"error": "bad gateway"}'), SubmitUnknown),
    ],
)
async def test_an_answer_that_is_not_the_providers_is_read_by_its_status(
    client: HttpClient, name: str, said: bytes, expected: type[ProviderError]
) -> None:
    async with running(saying(said)) as server:
        error = await error_of_submit(pointed_at(server.url, client)[name])
        assert type(error) is expected
        assert len(server.received) == 1
        if isinstance(error, ProviderUnavailable) and b"Retry-After" in said:
            assert error.retry_after == 7


@pytest.mark.parametrize("name", WITH_TASKS)
@pytest.mark.parametrize("body", [b"<html>", b'{"timestamp": 1, "status": 404, "error": "Not Found"}'])
async def test_a_404_that_is_not_the_providers_says_nothing_about_the_task(
    client: HttpClient, name: str, body: bytes
) -> None:
    async with running(saying(answer(404, body))) as server:
        error = await error_of_query(pointed_at(server.url, client)[name], "operations/1")
    assert type(error) is ProviderUnavailable


@pytest.mark.parametrize("name", WITH_TASKS)
@pytest.mark.parametrize("kind", ["drop", "truncated", "html", "garbage", "empty", "endless"])
async def test_a_query_that_fails_may_be_asked_again(
    providers: Providers, sandbox: SandboxProcess, name: str, kind: str
) -> None:
    task_id = await accepted(providers[name], "[never]")
    sandbox.faults(kind, route="query")
    assert type(await error_of_query(providers[name], task_id)) is ProviderUnavailable


@pytest.mark.parametrize(
    ("given", "expected"),
    [(7, 7), ("date:90", 90), (10**9, 3600), (-5, None), ("soon", None), ("date:-100", None), (0, 0)],
)
@pytest.mark.parametrize("status", [429, 503])
async def test_retry_after_is_read_in_every_form(
    providers: Providers, sandbox: SandboxProcess, given: Any, expected: float | None, status: int
) -> None:
    """F37: 429 with Retry-After."""
    sandbox.faults("status", status=status, retry_after=given)
    for name in NAMES:
        error = await error_of_submit(providers[name])
        assert isinstance(error, (ProviderBusy, ProviderUnavailable))
        assert error.retry_after == (None if expected is None else pytest.approx(expected, abs=3))


@pytest.mark.parametrize(("delay", "expected"), [("38s", 38), ("38.5s", 38.5), ("99999999s", 3600), ("later", None)])
async def test_geminis_delay_is_read_from_its_details(
    providers: Providers, sandbox: SandboxProcess, delay: str, expected: float | None
) -> None:
    """F37: 429 with Retry-After."""
    sandbox.faults("status", status=429, retry_delay=delay)
    for name in OF_GEMINI:
        error = await error_of_submit(providers[name])
        assert isinstance(error, ProviderBusy)
        assert error.retry_after == expected


async def test_a_spent_quota_of_the_day_waits_for_the_next_one(providers: Providers, sandbox: SandboxProcess) -> None:
    quota = "GenerateRequestsPerDayPerProjectPerModel-FreeTier"
    sandbox.faults("status", status=429, retry_delay="38s", quota_id=quota)
    for name in OF_GEMINI:
        error = await error_of_submit(providers[name])
        assert isinstance(error, ProviderQuotaSpent)
        assert 0 < error.reset <= 25 * 3600
    sandbox.clear_faults()
    sandbox.faults("status", status=429, quota_id="GenerateRequestsPerMinutePerProjectPerModel")
    assert isinstance(await error_of_submit(providers["gemini_veo"]), ProviderBusy)


@pytest.mark.parametrize("name", WITH_TASKS)
async def test_a_revoked_key_is_reported_as_unauthorized(providers: Providers, keys: Keys, name: str) -> None:
    """F48: a key is revoked while tasks run."""
    task_id = await accepted(providers[name], "[never]")
    keys.replace("revoked-key")
    error = await error_of_query(providers[name], task_id)
    assert isinstance(error, ProviderUnauthorized)
    assert "API_KEY" in error.hint
    assert isinstance(await error_of_submit(providers[name]), ProviderUnauthorized)
