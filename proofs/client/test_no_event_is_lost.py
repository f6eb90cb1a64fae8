from __future__ import annotations

import signal
from typing import TYPE_CHECKING

import pytest

from proofs.client.pages import BrowserTab, leaders, one_leads, open_tab, stopped_process
from proofs.client.writing import assert_same_log, writing
from tests.api.stage import Api
from tests.wait import until

if TYPE_CHECKING:
    from playwright.async_api import Browser, BrowserContext

    from tests.service.processes import Place

pytestmark = pytest.mark.asyncio(loop_scope="module")


async def have_more(tabs: list[BrowserTab], number: int = 40) -> None:
    """Wait until every tab has had some events more."""
    for tab in tabs:
        before = len(await tab.log())

        async def enough(tab: BrowserTab = tab, most: int = before + number) -> bool:
            return len(await tab.log()) >= most

        await until(enough, "events")


@pytest.mark.slow
async def test_every_tab_has_every_event_once_whatever_happens(
    either_place: Place, browser: Browser, context: BrowserContext, origin: str
) -> None:
    with either_place.server("--no-worker") as server:
        api = Api(either_place, server)
        tabs = [await open_tab(context, origin, server.url) for _ in range(5)]
        with writing(api, pause=0.005) as writer:
            await have_more(tabs)
            await _close_the_leader(tabs)
            await _freeze_the_leader(browser, tabs)
            server.stop(signal.SIGKILL)
            with either_place.server("--no-worker") as again:
                await have_more(tabs)
                await _lose_the_network(context, tabs)
                tabs += [await open_tab(context, origin, again.url) for _ in range(3)]
                await _close_the_leader(tabs)
                again.stop(signal.SIGTERM)
                with either_place.server("--no-worker"):
                    await have_more(tabs)
                    writer.stop()
                    least = await assert_same_log(api, tabs)
                    print(f"{writer.written} written, {least} at least in each of {len(tabs)} tabs")  # noqa: T201
                    assert len(await leaders(tabs)) == 1


async def _close_the_leader(tabs: list[BrowserTab]) -> None:
    leader = await one_leads(tabs)
    tabs.remove(leader)
    await leader.page.close()
    await have_more(tabs)


async def _freeze_the_leader(browser: Browser, tabs: list[BrowserTab]) -> None:
    leader = await one_leads(tabs)
    others = [tab for tab in tabs if tab is not leader]
    async with stopped_process(browser, leader):
        await one_leads(others)
        await have_more(others)
    await have_more(tabs)


async def _lose_the_network(context: BrowserContext, tabs: list[BrowserTab]) -> None:
    leader = await one_leads(tabs)
    await context.set_offline(offline=True)
    await leader.run("client.signedIn()")  # what it has of a connection is gone

    async def offline() -> bool:
        return await leader.status() == "offline"

    await until(offline, "being offline")
    await context.set_offline(offline=False)
    await have_more(tabs)
