"""The sandbox as a server: all providers under one address.

aiohttp serves here, not the ASGI server of Longtake's own API: only with the transport at hand can a connection be cut
after the work is done, or a body end too early; and it parses in C, so that ten thousand tasks can be queried quickly.
"""

from __future__ import annotations

import asyncio
import signal
from typing import TYPE_CHECKING

from aiohttp import web

from longtake_sandbox import bangumi, files, gemini, gemini_veo, kie, kie_veo, tmdb
from longtake_sandbox.control import Control, TitlesControl
from longtake_sandbox.sandbox import Box

if TYPE_CHECKING:
    from collections.abc import Callable

    from longtake_sandbox.options import Options

#: Every part of the outside world; a further provider is a further module with ENDPOINTS.
ENDPOINTS = (
    *kie.ENDPOINTS, *kie_veo.ENDPOINTS, *gemini.ENDPOINTS, *gemini_veo.ENDPOINTS, *files.ENDPOINTS,
    *tmdb.ENDPOINTS, *bangumi.ENDPOINTS,
)  # fmt: skip
CALLBACK_SHAPES = {kie.FAMILY: kie.callback, kie_veo.FAMILY: kie_veo.callback}
LARGEST_BODY = 64 * 1024 * 1024
#: Calls that hang on purpose are not waited for.
STOP_SECONDS = 0.2


class Sandbox:
    """One sandbox; it belongs to the event loop it is started in."""

    def __init__(self, options: Options) -> None:
        self.options = options
        self.box = Box(options)
        self.box.callbacks.shapes.update(CALLBACK_SHAPES)
        self._runner = web.AppRunner(self._application(), access_log=None, shutdown_timeout=STOP_SECONDS)

    async def start(self) -> str:
        """Listen, and return the address; port 0 takes any free one."""
        await self._runner.setup()
        site = web.TCPSite(self._runner, self.options.host, self.options.port, backlog=1024)
        await site.start()
        port = self._runner.addresses[0][1]
        host = f"[{self.options.host}]" if ":" in self.options.host else self.options.host
        self.box.url = f"http://{host}:{port}"
        self.box.restore()
        return self.box.url

    async def stop(self) -> None:
        """Stop listening and forget everything."""
        await self.box.close()
        await self._runner.cleanup()

    def _application(self) -> web.Application:
        application = web.Application(client_max_size=LARGEST_BODY)
        for endpoint in ENDPOINTS:
            application.router.add_route(endpoint.method, endpoint.path, endpoint.handler(self.box))
            if endpoint.route in {"file", "image"}:
                application.router.add_route("HEAD", endpoint.path, endpoint.handler(self.box))
        Control(self.box).add_to(application)
        TitlesControl(self.box).add_to(application)
        return application


def run_sandbox(options: Options, announce: Callable[[str], None]) -> None:
    """Run until SIGTERM or Ctrl-C; the address is announced when it can be called."""
    try:
        import uvloop  # noqa: PLC0415 - not on Windows

        new_loop: Callable[[], asyncio.AbstractEventLoop] = uvloop.new_event_loop
    except ImportError:
        new_loop = asyncio.new_event_loop
    with asyncio.Runner(loop_factory=new_loop) as runner:
        runner.run(_serve(options, announce))


async def _serve(options: Options, announce: Callable[[str], None]) -> None:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    sandbox = Sandbox(options)
    announce(await sandbox.start())
    await stop.wait()
    await sandbox.stop()
