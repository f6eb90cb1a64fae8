"""Pages that use the client: served from an origin of their own, opened in tabs of a real browser."""

from __future__ import annotations

import os
import signal
import threading
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from tests.api.stage import token
from tests.wait import until

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from playwright.async_api import Browser, BrowserContext, Page

SOURCES = Path(__file__).parents[2] / "client" / "src"
PAGE = Path(__file__).parent / "page.html"
TYPES = {".js": "text/javascript", ".html": "text/html; charset=utf-8"}


class _Files(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        path = urlsplit(self.path).path
        file = PAGE if path == "/page.html" else SOURCES / path.removeprefix("/client/")
        if not path.startswith(("/client/", "/page.html")) or ".." in path or not file.is_file():
            self.send_error(404)
            return
        content = file.read_bytes()
        self.send_response(200)
        self.send_header("Content-Type", TYPES[file.suffix])
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_arguments: Any) -> None:
        """Say nothing."""


@contextmanager
def serving_pages() -> Iterator[str]:
    """Serve the page and the client's modules; the origin is the block's."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Files)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


@dataclass
class BrowserTab:
    """One tab with the client in it."""

    page: Page
    errors: list[str] = field(default_factory=list)

    async def run(self, script: str, argument: Any = None) -> Any:
        """Run JavaScript in the page."""
        return await self.page.evaluate(script, argument)

    async def log(self) -> list[str]:
        """Return the cursors of all events the tab was told of."""
        found: list[str] = await self.run("log.map((event) => event.cursor)")
        return found

    async def is_ready(self) -> bool:
        return bool(await self.run("client.state.ready"))

    async def is_leading(self) -> bool:
        return bool(await self.run("client.leading"))

    async def status(self) -> str:
        return str(await self.run("client.connection.status"))


async def load(context: BrowserContext, origin: str) -> BrowserTab:
    """Open the page; the client is there, and does nothing yet."""
    tab = BrowserTab(await context.new_page())
    tab.page.on("pageerror", lambda error: tab.errors.append(str(error)))
    await tab.page.goto(f"{origin}/page.html")
    await tab.page.wait_for_function("window.loaded === true")
    return tab


async def open_tab(context: BrowserContext, origin: str, url: str, user: str = "ada", **rest: Any) -> BrowserTab:
    """Open the page as a user who is logged in, and wait until it shows what there is."""
    tab = await load(context, origin)
    await tab.run("(options) => begin(options)", {"url": url, "userId": user, "token": token(user), **rest})
    await until(tab.is_ready, "the state")
    return tab


@asynccontextmanager
async def stopped_process(browser: Browser, tab: BrowserTab) -> AsyncIterator[None]:
    """Stop the process of a tab, as a machine that is out of memory would; at the end of the block it goes on."""
    session = await browser.new_browser_cdp_session()

    async def times() -> dict[int, float]:
        found = (await session.send("SystemInfo.getProcessInfo"))["processInfo"]
        return {one["id"]: one["cpuTime"] for one in found if one["type"] == "renderer"}

    before = await times()
    await tab.run("() => { const end = Date.now() + 500; while (Date.now() < end); }")
    after = await times()
    # The browser does not say which process a tab has: it is the one that was busy.
    process = max(after, key=lambda one: after[one] - before.get(one, 0.0))
    os.kill(process, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(process, signal.SIGCONT)


async def leaders(tabs: list[BrowserTab]) -> list[BrowserTab]:
    """Return those who lead."""
    return [tab for tab in tabs if await tab.is_leading()]


async def one_leads(tabs: list[BrowserTab]) -> BrowserTab:
    """Wait until exactly one leads; return it."""

    async def one() -> list[BrowserTab]:
        found = await leaders(tabs)
        return found if len(found) == 1 else []

    found: list[BrowserTab] = await until(one, "one leader")
    return found[0]
