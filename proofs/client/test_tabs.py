from __future__ import annotations

import time
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

from proofs.client.pages import BrowserTab, leaders, load, one_leads, open_tab, stopped_process
from proofs.client.writing import Writer, assert_same_log, milliseconds_since, writing
from tests.api.stage import token
from tests.wait import until

if TYPE_CHECKING:
    from playwright.async_api import Browser, BrowserContext, Request

    from tests.api.stage import Api

pytestmark = pytest.mark.asyncio(loop_scope="module")

#: Hangs until another tab says that it is enough; a cookie is what a page sees of others while it hangs.
BLOCK = """() => setTimeout(() => {
    const end = Date.now() + 60_000;
    while (!document.cookie.includes("woken=1") && Date.now() < end);
}, 0)"""
#: Joins the tabs' channel without being one of them.
LISTEN = """async (url) => {
    const { nameOf } = await import("/client/names.js");
    const channel = new BroadcastChannel(nameOf(url, "ada"));
    window.heard = [];
    channel.onmessage = ({ data }) => heard.push(data);
    window.say = (message) => channel.postMessage({ kind: "events", ...message });
    window.made = (cursor) => ({ cursor, type: "task.created", at: "", subject: "made up", data: {} });
}"""
NO_LOCKS = "Object.defineProperty(Navigator.prototype, 'locks', { value: undefined })"
NO_WORKERS = "delete globalThis.SharedWorker"


class Streams:
    """Counts the requests for the stream that a profile has made and that are still open."""

    def __init__(self, context: BrowserContext) -> None:
        self.all: list[Request] = []
        self._ended: set[Request] = set()
        context.on("request", self._begun)
        context.on("requestfinished", self._over)
        context.on("requestfailed", self._over)

    def _begun(self, request: Request) -> None:
        if request.url.endswith("/v1/events") and request.method == "GET":
            self.all.append(request)

    def _over(self, request: Request) -> None:
        self._ended.add(request)

    @property
    def open(self) -> int:
        return sum(one not in self._ended and not one.frame.page.is_closed() for one in self.all)


async def open_tabs(context: BrowserContext, origin: str, api: Api, number: int, **rest: Any) -> list[BrowserTab]:
    tabs = [await open_tab(context, origin, api.server.url, **rest) for _ in range(number)]
    await all_live(tabs)
    return tabs


async def all_live(tabs: list[BrowserTab]) -> None:
    async def live() -> bool:
        return [await tab.status() for tab in tabs] == ["live"] * len(tabs)

    await until(live, "the stream")


async def test_four_tabs_have_one_stream(either_api: Api, context: BrowserContext, origin: str) -> None:
    streams = Streams(context)
    tabs = await open_tabs(context, origin, either_api, 4)
    either_api.grant("ada", 42)
    for tab in tabs:
        await tab.page.wait_for_function("client.state.credits.available === 42")
    assert (len(streams.all), streams.open, len(await leaders(tabs))) == (1, 1, 1)
    await assert_same_log(either_api, tabs)


async def test_eight_tabs_work_although_a_browser_has_six_connections(
    api: Api, context: BrowserContext, origin: str
) -> None:
    tabs = await open_tabs(context, origin, api, 8)
    with writing(api) as writer:
        await until(lambda: _reached(writer, 50), "50 events")
    # Every tab can still talk for itself, too.
    for tab in tabs:
        assert "models" in await tab.run("client.actions.models()")
    await assert_same_log(api, tabs)


async def test_another_tab_leads_when_the_leader_is_closed(api: Api, context: BrowserContext, origin: str) -> None:
    streams = Streams(context)
    # Nobody waits for silence: only the lock that a closed tab leaves can make another one lead.
    tabs = await open_tabs(context, origin, api, 4, timing={"tabs": {"silence": 3_600_000}})
    took = []
    with writing(api):
        for _ in range(3):
            leader = await one_leads(tabs)
            tabs.remove(leader)
            await leader.page.close()
            started = time.perf_counter()
            await one_leads(tabs)
            took.append(milliseconds_since(started))
            await all_live(tabs)
    assert await assert_same_log(api, tabs) > 0
    assert streams.open == 1
    print(f"a closed leader was replaced after {', '.join(f'{one:.0f}' for one in took)} ms")  # noqa: T201 - a figure


async def test_a_page_that_is_put_to_sleep_hands_on_and_catches_up(
    api: Api, context: BrowserContext, origin: str
) -> None:
    tabs = await open_tabs(context, origin, api, 3)
    leader = await one_leads(tabs)
    others = [tab for tab in tabs if tab is not leader]
    with writing(api) as writer:
        # A headless browser has no hidden tabs that it could freeze: the page is told what it would be told.
        await leader.run("document.dispatchEvent(new Event('freeze')) && 0")
        await one_leads(others)
        reached = writer.written
        await until(lambda: _reached(writer, reached + 50), "50 events")
        await leader.run("document.dispatchEvent(new Event('resume')) && 0")
        await until(lambda: _reached(writer, reached + 100), "50 more")
    await assert_same_log(api, tabs)
    assert len(await leaders(tabs)) == 1


@pytest.mark.slow
async def test_a_frozen_leader_is_replaced_and_steps_down(
    either_api: Api, browser: Browser, context: BrowserContext, origin: str
) -> None:
    tabs = await open_tabs(context, origin, either_api, 3)
    leader = await one_leads(tabs)
    others = [tab for tab in tabs if tab is not leader]
    with writing(either_api):
        async with stopped_process(browser, leader):
            started = time.perf_counter()
            replacement = await one_leads(others)
            print(f"a frozen leader was replaced after {milliseconds_since(started):.0f} ms")  # noqa: T201 - a figure
            await all_live(others)
        await until(lambda: _steps_down(leader), "stepping down")
        assert await leaders(tabs) == [replacement]
    await assert_same_log(either_api, tabs)


@pytest.mark.slow
async def test_a_leader_that_hangs_is_replaced_and_steps_down(api: Api, context: BrowserContext, origin: str) -> None:
    tabs = await open_tabs(context, origin, api, 3)
    leader = await one_leads(tabs)
    others = [tab for tab in tabs if tab is not leader]
    with writing(api):
        started = time.perf_counter()
        await leader.run(BLOCK)
        replacement = await one_leads(others)
        print(f"a hanging leader was replaced after {milliseconds_since(started):.0f} ms")  # noqa: T201 - a figure
        await all_live(others)
        await replacement.run("document.cookie = 'woken=1'")
        assert not await leader.is_leading()  # answers only when it has woken up
        assert await leaders(tabs) == [replacement]
    await assert_same_log(api, tabs)


async def test_a_leader_that_begins_with_nothing_inherits_what_the_others_have(
    api: Api, context: BrowserContext, origin: str
) -> None:
    tabs = await open_tabs(context, origin, api, 2)
    with writing(api, pause=0.002) as writer:
        for number in (20, 60, 100):
            await until(partial(_reached, writer, number), "events")
            taking = await load(context, origin)
            options = {"url": api.server.url, "userId": "ada", "token": token("ada")}
            await taking.run("(options) => { begin(options); client.signedIn(); }", options)
            await until(taking.is_ready, "the state")
            tabs.append(taking)
        assert await one_leads(tabs) is tabs[-1]
    await assert_same_log(api, tabs)


async def test_a_tab_that_missed_an_event_asks_for_it_and_an_old_leader_is_not_heard(
    api: Api, context: BrowserContext, origin: str
) -> None:
    tabs = await open_tabs(context, origin, api, 2)
    api.grant()
    voice = await load(context, origin)
    await voice.run(LISTEN, api.server.url)
    await voice.page.wait_for_function("heard.some(({ kind }) => kind === 'beat')")
    await voice.run("heard = heard.filter(({ kind }) => kind === 'beat')")
    # As if the leader had said something in between that this tab did not hear.
    await voice.run("say({ term: heard[0].term, after: '0.900', events: [made('0.901')] })")
    await voice.page.wait_for_function("heard.some(({ kind }) => kind === 'ask')")
    # As a leader would that was replaced and has not noticed yet.
    await voice.run("say({ term: heard[0].term - 1, after: heard[0].last, events: [made('0.902')] })")
    api.grant()
    await assert_same_log(api, tabs)
    assert len(await leaders(tabs)) == 1


async def test_a_hidden_leader_with_a_slow_clock_stays(api: Api, context: BrowserContext, origin: str) -> None:
    # Its beats come every minute, as in a tab that nobody has looked at for long; but it answers.
    quiet = await open_tab(context, origin, api.server.url, timing={"tabs": {"beat": 60_000, "silence": 4000}})
    voice = await load(context, origin)
    await voice.run(LISTEN, api.server.url)
    patient = {"tabs": {"beat": 100, "silence": 300, "answer": 60_000}}
    watching = await open_tab(context, origin, api.server.url, timing=patient)
    # It asks again only when it has been answered.
    await voice.page.wait_for_function("heard.filter(({ kind }) => kind === 'ask').length > 5")
    assert await leaders([quiet, watching]) == [quiet]


@pytest.mark.parametrize("missing", [[NO_LOCKS], [NO_LOCKS, NO_WORKERS]], ids=["shared worker", "each alone"])
async def test_browsers_without_locks_work_too(
    api: Api, context: BrowserContext, origin: str, missing: list[str]
) -> None:
    for script in missing:
        await context.add_init_script(script)
    tabs = await open_tabs(context, origin, api, 3)
    assert len(await leaders(tabs)) == (0 if missing == [NO_LOCKS] else 3)
    with writing(api) as writer:
        await until(lambda: _reached(writer, 50), "50 events")
        await tabs.pop(0).page.close()
        await until(lambda: _reached(writer, 100), "50 more")
    await assert_same_log(api, tabs)


async def test_the_shared_worker_ends_with_its_last_tab(
    api: Api, browser: Browser, context: BrowserContext, origin: str
) -> None:
    await context.add_init_script(NO_LOCKS)
    tabs = await open_tabs(context, origin, api, 2)
    session = await browser.new_browser_cdp_session()

    async def workers() -> int:
        found = (await session.send("Target.getTargets"))["targetInfos"]
        return sum(one["type"] == "shared_worker" for one in found)

    async def none() -> bool:
        return await workers() == 0

    for tab in tabs:
        for _ in range(3):
            await tab.run("client.signedIn()")
    await all_live(tabs)
    api.grant("ada", 42)
    for tab in tabs:
        await tab.page.wait_for_function("client.state.credits.available === 42")
    await tabs.pop().run("client.stop()")
    api.grant("ada", 1)
    await tabs[0].page.wait_for_function("client.state.credits.available === 43")
    assert await workers() == 1
    await tabs[0].run("client.stop()")
    await until(none, "the worker's end")


async def test_a_page_that_forbids_workers_has_a_stream_of_its_own(
    api: Api, context: BrowserContext, origin: str
) -> None:
    await context.add_init_script(NO_LOCKS)
    await context.route("**/client/worker.js", lambda route: route.abort())
    await context.add_init_script("globalThis.SharedWorker = class { constructor() { throw new Error('forbidden'); } }")
    tab = await open_tab(context, origin, api.server.url)
    assert await tab.is_leading()


async def _steps_down(tab: BrowserTab) -> bool:
    return not await tab.is_leading()


async def _reached(writer: Writer, number: int) -> bool:
    return writer.written >= number
