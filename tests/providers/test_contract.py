"""What every adapter does, shown against a real sandbox: submit, follow, fetch, and the reasons of failures."""

from __future__ import annotations

import asyncio
import io
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from PIL import Image

from longtake.adapters.providers.errors import ProviderRefused, ProviderTaskNotFound, ProviderUnauthorized
from longtake.adapters.providers.provider import (
    Delivered,
    Failed,
    MediaUrl,
    Provider,
    Reference,
    Running,
    Strange,
    Succeeded,
)
from longtake.adapters.providers.registry import lanes_of
from longtake.engine.lanes import LaneState, next_permit, permits
from tests.net.servers import answer, running, saying
from tests.providers.asking import MODELS, NAMES, OF_GEMINI, OF_KIE, WITH_TASKS, Keys, accepted, end_of, request

if TYPE_CHECKING:
    from longtake.adapters.net import HttpClient
    from longtake.engine.lanes import Lane
    from tests.sandbox_process import SandboxProcess

Providers = dict[str, Provider]


async def fetch(client: HttpClient, provider: Provider, file: MediaUrl) -> tuple[int, bytes]:
    headers = provider.download_headers(file.url)
    async with client.stream("GET", file.url, headers=headers, seconds=10, most_bytes=10_000_000) as found:
        return found.status, b"".join([piece async for piece in found.chunks()])


def picture() -> bytes:
    held = io.BytesIO()
    Image.new("RGB", (80, 80), "red").save(held, "PNG")
    return held.getvalue()


@pytest.mark.parametrize("name", WITH_TASKS)
async def test_a_task_is_accepted_followed_and_fetched(
    providers: Providers, sandbox: SandboxProcess, client: HttpClient, name: str
) -> None:
    provider = providers[name]
    task_id = await accepted(provider, f"a lighthouse for {name}")
    end = await end_of(provider, task_id)
    assert isinstance(end, Succeeded)
    assert end.expires_in > 60
    status, content = await fetch(client, provider, end.files[0])
    assert status == 200
    assert content[:4] == b"\x89PNG" if name == "kie" else content[4:8] == b"ftyp"
    made = [task for task in sandbox.tasks() if task["prompt"] == f"a lighthouse for {name}"]
    assert [task["id"] for task in made] == [task_id]


async def test_gemini_delivers_its_image_at_once(providers: Providers) -> None:
    end = await providers["gemini_image"].submit(request("gemini_image"))
    assert isinstance(end, Delivered)
    assert [file.content_type for file in end.files] == ["image/png"]
    assert Image.open(io.BytesIO(end.files[0].body)).size[0] > 0
    with pytest.raises(ProviderTaskNotFound):
        await providers["gemini_image"].query("anything")


@pytest.mark.parametrize("name", WITH_TASKS)
async def test_a_running_task_is_running(providers: Providers, name: str) -> None:
    task_id = await accepted(providers[name], "[never] a lighthouse")
    found = await providers[name].query(task_id)
    assert isinstance(found, Running)
    assert found.word


@pytest.mark.parametrize("name", WITH_TASKS)
@pytest.mark.parametrize("word", ["[fail]", "[blocked]"])
async def test_a_failure_names_its_reason(providers: Providers, name: str, word: str) -> None:
    end = await end_of(providers[name], await accepted(providers[name], f"{word} a lighthouse"))
    assert isinstance(end, Failed)
    assert end.code
    assert len(end.message) > 20
    if word == "[blocked]":
        assert "polic" in end.message


@pytest.mark.parametrize(("word", "code"), [("[blocked]", None), ("[safety]", None), ("[empty]", "NO_IMAGE")])
async def test_an_image_that_gemini_does_not_make_is_refused_with_the_reason(
    providers: Providers, word: str, code: str | None
) -> None:
    with pytest.raises(ProviderRefused) as caught:
        await providers["gemini_image"].submit(request("gemini_image", f"{word} a lighthouse"))
    assert caught.value.fail_code == (code or caught.value.fail_code) != ""
    assert caught.value.fail_code.isupper()
    assert caught.value.fail_code in caught.value.message


@pytest.mark.parametrize("name", OF_KIE)
async def test_success_without_files_is_told_as_such(providers: Providers, name: str) -> None:
    assert await end_of(providers[name], await accepted(providers[name], "[empty]")) == Succeeded((), 600)


async def test_clips_that_were_all_filtered_are_a_failure(providers: Providers) -> None:
    end = await end_of(providers["gemini_veo"], await accepted(providers["gemini_veo"], "[empty]"))
    assert isinstance(end, Failed)
    assert end.code == "FILTERED"


@pytest.mark.parametrize("name", NAMES)
async def test_what_the_provider_calls_invalid_is_refused_for_good(
    providers: Providers, sandbox: SandboxProcess, name: str
) -> None:
    before = len(sandbox.tasks())
    for changes in ({"model": "no-such-model"}, {"prompt": " "}):
        with pytest.raises(ProviderRefused) as caught:
            await providers[name].submit(request(name, **{"prompt": "x", **changes}))
        assert caught.value.fail_code
        assert caught.value.provider == name
    assert len(sandbox.tasks()) == before


@pytest.mark.parametrize("name", WITH_TASKS)
async def test_an_unknown_task_is_not_found(providers: Providers, name: str) -> None:
    unknown = "models/veo-3.1-fast-generate-preview/operations/none" if name == "gemini_veo" else "none"
    with pytest.raises(ProviderTaskNotFound) as caught:
        await providers[name].query(unknown)
    assert caught.value.code == "TASK_NOT_FOUND"


@pytest.mark.parametrize("task_id", ["../models", "models//x", "a/../b", "x?key=1", "models/a/operations/b#c", "", "a"])
async def test_an_operations_name_leads_nowhere_else(
    providers: Providers, sandbox: SandboxProcess, task_id: str
) -> None:
    with pytest.raises(ProviderTaskNotFound):
        await providers["gemini_veo"].query(task_id)
    assert sandbox.calls() == []


@pytest.mark.parametrize("name", OF_KIE)
async def test_references_reach_kie_as_addresses(providers: Providers, sandbox: SandboxProcess, name: str) -> None:
    async with running(saying(answer(body=picture(), headers={"Content-Type": "image/png"}))) as server:
        model = "google/nano-banana-edit" if name == "kie" else "veo3_fast"
        references = [Reference("image/png", url=f"{server.url}/one.png")]
        task_id = await accepted(providers[name], model=model, references=references)
        assert isinstance(await end_of(providers[name], task_id), Succeeded)
        assert [received.path for received in server.received] == ["/one.png"]


@pytest.mark.parametrize("name", OF_GEMINI)
async def test_references_reach_gemini_as_bytes(providers: Providers, name: str) -> None:
    good, bad = Reference("image/png", body=picture()), Reference("image/png", body=b"not a picture")
    await providers[name].submit(request(name, references=[good]))
    with pytest.raises(ProviderRefused):
        await providers[name].submit(request(name, references=[bad]))


@pytest.mark.parametrize("name", NAMES)
async def test_a_reference_in_the_wrong_form_is_refused_before_anything_is_sent(
    providers: Providers, sandbox: SandboxProcess, name: str
) -> None:
    form = {"url": None, "body": b"x"} if name in OF_KIE else {"url": "https://a.example/x", "body": None}
    with pytest.raises(ProviderRefused) as caught:
        await providers[name].submit(request(name, references=[Reference("image/png", **form)]))
    assert caught.value.fail_code == "REFERENCE_MISSING"
    assert sandbox.calls() == []


@pytest.mark.parametrize("name", NAMES)
async def test_without_a_key_nothing_is_sent_and_the_setting_is_named(
    providers: Providers, sandbox: SandboxProcess, keys: Keys, name: str
) -> None:
    setting = "LONGTAKE_KIE_API_KEY" if name in OF_KIE else "LONGTAKE_GEMINI_API_KEY"
    assert providers[name].configured
    for value in ("", "  ", "two\nlines", "schlüssel"):
        keys.replace(value)
        with pytest.raises(ProviderUnauthorized) as caught:
            await providers[name].submit(request(name))
        assert setting in caught.value.hint
        assert not value.strip() or value not in caught.value.message
    keys.replace("")
    assert not providers[name].configured
    assert sandbox.calls() == []


@pytest.mark.parametrize("name", WITH_TASKS)
async def test_a_second_query_gives_an_address_that_works(
    providers: Providers, sandbox: SandboxProcess, client: HttpClient, name: str
) -> None:
    """F44: the address of a result has expired."""
    provider = providers[name]
    usual = sandbox.settings()["url_seconds"]
    sandbox.settings(url_seconds=0.05)
    try:
        task_id = await accepted(provider, f"soon gone for {name}")
        first = await end_of(provider, task_id)
        assert isinstance(first, Succeeded)
        await asyncio.sleep(0.1)
        expired = await fetch(client, provider, first.files[0]) if name != "gemini_veo" else (410, b"")
        sandbox.settings(url_seconds=60)
        second = await provider.query(task_id)
        assert isinstance(second, Succeeded)
        assert expired[0] >= 400
        assert (await fetch(client, provider, second.files[0]))[0] == 200
    finally:
        sandbox.settings(url_seconds=usual)


async def test_geminis_key_goes_only_to_its_own_files(providers: Providers, sandbox: SandboxProcess) -> None:
    veo = providers["gemini_veo"]
    assert veo.download_headers(f"{sandbox.url}/gemini/v1beta/files/x") == {"x-goog-api-key": sandbox.key}
    for url in ("https://elsewhere.example/x", sandbox.url.replace("http", "https"), "nonsense", sandbox.url + "1/x"):
        assert veo.download_headers(url) == {}
    assert providers["kie"].download_headers(f"{sandbox.url}/files/x") == {}


async def test_a_task_that_runs_again_is_reported_as_the_provider_reports_it(
    providers: Providers, sandbox: SandboxProcess
) -> None:
    """F42: an ended task runs again."""
    for name in WITH_TASKS:
        task_id = await accepted(providers[name])
        assert isinstance(await end_of(providers[name], task_id), Succeeded)
        sandbox.faults("backwards", task=task_id, times=1)
        assert isinstance(await providers[name].query(task_id), Running)
        assert isinstance(await providers[name].query(task_id), Succeeded)


@pytest.mark.parametrize("name", WITH_TASKS)
async def test_an_unknown_state_is_reported_as_unknown(
    providers: Providers, sandbox: SandboxProcess, name: str
) -> None:
    """F47: an unknown state."""
    task_id = await accepted(providers[name])
    await end_of(providers[name], task_id)
    if name == "gemini_veo":
        sandbox.faults("replace", task=task_id, replace={"done": "perhaps"})
    else:
        sandbox.faults("unknown_state", task=task_id)
    found = await providers[name].query(task_id)
    assert isinstance(found, Strange)
    assert found.word


@pytest.mark.parametrize("name", WITH_TASKS)
async def test_an_answer_about_another_task_ends_nothing(
    providers: Providers, sandbox: SandboxProcess, name: str
) -> None:
    """F45: one remote id for two tasks."""
    task_id = await accepted(providers[name])
    await end_of(providers[name], task_id)
    field = "name" if name == "gemini_veo" else "data.taskId"
    sandbox.faults("replace", task=task_id, replace={field: "models/other/operations/other"})
    assert isinstance(await providers[name].query(task_id), Strange)


def test_the_names_lanes_and_limits_that_tasks_rely_on(providers: Providers) -> None:
    assert list(providers) == NAMES == list(MODELS)
    assert {name: one.submits for name, one in providers.items()} == {
        "kie": "once", "kie_veo": "once", "gemini_image": "repeatable", "gemini_veo": "once",
    }  # fmt: skip
    assert {name: one.takes_references for name, one in providers.items()} == {
        "kie": "url", "kie_veo": "url", "gemini_image": "bytes", "gemini_veo": "bytes",
    }  # fmt: skip
    assert {one.account for one in providers.values()} == {"kie", "gemini"}
    assert {lane.name: (lane.rate, lane.burst) for lane in lanes_of(providers)} == {
        "kie.submit": ((20, 10.0), 2),
        "kie.query": ((10, 1.0), 1),
        "gemini.submit": ((60, 60.0), 5),
        "gemini.query": ((50, 1.0), 1),
    }
    assert [one.running_limit for one in providers.values()] == [100, 100, None, None]


@pytest.mark.parametrize("name", ["kie.submit", "kie.query", "gemini.submit", "gemini.query"])
def test_a_lane_sustains_nine_tenths_of_its_rate_and_never_passes_it(providers: Providers, name: str) -> None:
    """Always somebody waiting, every other start as late as it may be: the hardest case for both."""
    [lane] = [one for one in lanes_of(providers) if one.name == name]
    assert lane.rate is not None
    count, period = lane.rate
    starts = [
        start + index % 2 * lane.permit_lifetime for index, start in enumerate(permitted_within(lane, 20 * period))
    ]
    windows = zip(sorted(starts), sorted(starts)[count:], strict=False)
    assert all(later - earlier >= period - 1e-7 for earlier, later in windows)
    # The burst at the beginning is not the lasting rate.
    lasting = sum(10 * period <= start < 20 * period for start in starts)
    assert lasting >= 0.9 * 10 * count


def permitted_within(lane: Lane, seconds: float) -> list[float]:
    """Return the times of all permits, each taken as soon as it can be."""
    state, now = LaneState(), 0.0
    starts: list[float] = []
    while now < seconds:
        wait = next_permit(lane, state)
        now += wait
        given, state = permits(lane, replace(state, **earlier(state, wait)), 0, 10)
        starts += [now + start for start in given]
    return starts


def earlier(state: LaneState, seconds: float) -> dict[str, float]:
    """Return where the limits stand so much later."""
    return {"arrival": (state.arrival or 0.0) - seconds, "spaced": (state.spaced or 0.0) - seconds}
