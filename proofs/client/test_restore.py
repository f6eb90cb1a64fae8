from __future__ import annotations

import subprocess
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import pytest
from playwright.async_api import Browser, async_playwright

from proofs.client.browser import FLAGS, find_chromium
from proofs.client.pages import load, open_tab
from tests.api.stage import Api, place_for, token
from tests.sandbox_process import running_sandbox
from tests.wait import PATIENCE_SECONDS, until, wait_for

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator
    from pathlib import Path

    from playwright.async_api import BrowserContext

pytestmark = pytest.mark.asyncio(loop_scope="module")

SUBMIT_MANY = """async (number) => {
    const wish = (one) => ({ model: "nano-banana", prompt: `fox ${one}` });
    const all = Array.from({ length: number }, (_, one) => client.actions.submitImage(wish(one)));
    return (await Promise.all(all)).map(({ id }) => id);
}"""

#: Begins and measures until everything is there.
RESTORE = """async (options) => {
    const started = performance.now();
    begin(options);
    while (!client.state.ready) await new Promise((resolve) => client.subscribe(resolve));
    const requests = performance.getEntriesByType("resource").filter(({ name }) => name.includes("/v1/"));
    return {
        milliseconds: performance.now() - started,
        ids: longtake.unfinished(client.state).map(({ id }) => id),
        paths: requests.map(({ name }) => new URL(name).pathname).filter((path) => path !== "/v1/events"),
    };
}"""


@pytest.fixture
def working_api(tmp_path: Path, origin: str) -> Iterator[Api]:
    """A server with a worker, and a provider that takes its time."""
    with running_sandbox(seconds={"image": 60.0}) as sandbox:
        place = place_for(tmp_path, sandbox=sandbox, allowed_origins=origin)
        with place.server() as server:
            yield Api(place, server, sandbox)


@asynccontextmanager
async def killable_browser(folder: Path) -> AsyncIterator[tuple[Browser, subprocess.Popen[bytes]]]:
    """Run a Chromium that the test may kill as a process."""
    async with async_playwright() as playwright:
        path = find_chromium(playwright.chromium.executable_path)
        options = ["--headless=new", "--remote-debugging-port=0", f"--user-data-dir={folder}"]
        process = subprocess.Popen(  # noqa: ASYNC220 - nothing else runs in this loop
            [path, *FLAGS, *options, "about:blank"], stderr=subprocess.DEVNULL
        )
        try:
            file = folder / "DevToolsActivePort"
            port = wait_for(lambda: file.exists() and file.read_text().split("\n")[0], "the browser's start")
            yield await playwright.chromium.connect_over_cdp(f"http://127.0.0.1:{port}"), process
        finally:
            process.kill()
            process.wait(timeout=PATIENCE_SECONDS)


@pytest.mark.slow
@pytest.mark.parametrize("number", [20, 50])
async def test_all_tasks_are_back_after_one_request_on_another_device(
    working_api: Api, context: BrowserContext, origin: str, tmp_path: Path, number: int
) -> None:
    working_api.grant("ada", 10_000)
    async with killable_browser(tmp_path / "profile") as (browser, process):
        profile = browser.contexts[0]
        first = await open_tab(profile, origin, working_api.server.url)
        made = await first.run(SUBMIT_MANY, number)
        process.kill()
        process.wait(timeout=PATIENCE_SECONDS)

    tab = await load(context, origin)
    found = await tab.run(RESTORE, _begin(working_api))
    print(f"{number} tasks were back after {found['milliseconds']:.0f} ms")  # noqa: T201 - a figure
    assert sorted(found["ids"]) == sorted(made)
    assert found["paths"] == ["/v1/snapshot"]
    # What a person is promised; that it takes a tenth of this is shown by `./dev bench delivery`, on a quiet machine.
    assert found["milliseconds"] < 2000


def _begin(api: Api) -> dict[str, Any]:
    return {"url": api.server.url, "userId": "ada", "token": token("ada")}


async def test_what_ended_while_nobody_looked_is_there_and_what_ends_then_comes(
    tmp_path: Path, context: BrowserContext, origin: str
) -> None:
    with running_sandbox() as sandbox:
        place = place_for(tmp_path, sandbox=sandbox, allowed_origins=origin)
        with place.server() as server:
            api = Api(place, server, sandbox)
            api.grant("ada", 10_000)
            conversation = api.conversation()
            done = api.generate({"conversation_id": conversation}, headers={"Prefer": "wait=30"}).json
            tab = await open_tab(context, origin, server.url)
            assert await tab.run("client.state.unread") == 1
            assert await tab.run("(id) => client.state.tasks[id].results.length", done["id"]) == 1
            await tab.run("(id) => client.actions.markRead(id)", conversation)
            await tab.page.wait_for_function("client.state.unread === 0")

            wish = {"model": "nano-banana", "prompt": "a fox", "conversation_id": conversation}
            task = await tab.run("(wish) => client.actions.submitImage(wish)", wish)
            bar = await tab.run("(id) => client.progressOf(client.state.tasks[id])", task["id"])
            assert bar["fraction"] is None or 0 <= bar["fraction"] < 1

            async def stored() -> bool:
                script = "(id) => client.state.tasks[id].results.map(({ save_state }) => save_state)"
                return bool(await tab.run(script, task["id"]) == ["success"])

            await until(stored, "the result in our storage")
            assert await tab.run("(id) => client.state.recent[0] === id", task["id"])
            await tab.page.wait_for_function("client.state.unread === 1 && client.state.conversations[0].unread === 1")
            types = set(await tab.run("log.map(({ type }) => type)"))
            assert {"task.created", "task.completed", "asset.stored", "credits.changed", "message.changed"} <= types
            # All that was asked for again has been answered.
            await tab.page.wait_for_function("Object.keys(client.state.stale).length === 0")
            assert await tab.run("(id) => client.progressOf(client.state.tasks[id])", task["id"]) is None
