"""The sandbox's HTTP server: all providers under one address.

It runs on aiohttp instead of the ASGI server of Longtake's API because aiohttp exposes the transport, so a connection
can be cut after the work is done and a body can end early. aiohttp also parses in C, fast enough to poll ten thousand
tasks.
"""

from __future__ import annotations

import asyncio
import signal
from typing import TYPE_CHECKING

from aiohttp import web

from longtake_sandbox import bangumi, files, gemini, kie, tmdb
from longtake_sandbox.control import Control
from longtake_sandbox.sandbox import Sandbox

if TYPE_CHECKING:
    from collections.abc import Callable

    from longtake_sandbox.sandbox import Options

#: All routes. To add a provider, write a module with ENDPOINTS and add it here.
ENDPOINTS = (*kie.ENDPOINTS, *gemini.ENDPOINTS, *files.ENDPOINTS, *tmdb.ENDPOINTS, *bangumi.ENDPOINTS)
CALLBACK_SHAPES = {kie.FAMILY: kie.callback, kie.VEO_FAMILY: kie.veo_callback}
LARGEST_BODY = 64 * 1024 * 1024
#: How long a stop waits for open requests. Some hang on purpose.
STOP_SECONDS = 0.2


class SandboxServer:
    """Serves one sandbox on the event loop that starts it."""

    def __init__(self, options: Options) -> None:
        self.options = options
        self.sandbox = Sandbox(options)
        self.sandbox.callbacks.shapes.update(CALLBACK_SHAPES)
        self._runner = web.AppRunner(self._application(), access_log=None, shutdown_timeout=STOP_SECONDS)

    async def start(self) -> str:
        """Listen and return the base URL. Port 0 takes any free port."""
        await self._runner.setup()
        site = web.TCPSite(self._runner, self.options.host, self.options.port, backlog=1024)
        await site.start()
        port = self._runner.addresses[0][1]
        host = f"[{self.options.host}]" if ":" in self.options.host else self.options.host
        self.sandbox.url = f"http://{host}:{port}"
        self.sandbox.restore()
        return self.sandbox.url

    async def stop(self) -> None:
        """Stop listening and close the sandbox."""
        await self.sandbox.close()
        await self._runner.cleanup()

    def _application(self) -> web.Application:
        application = web.Application(client_max_size=LARGEST_BODY)
        for endpoint in ENDPOINTS:
            application.router.add_route(endpoint.method, endpoint.path, endpoint.handler(self.sandbox))
            if endpoint.route in {"file", "image"}:
                application.router.add_route("HEAD", endpoint.path, endpoint.handler(self.sandbox))
        Control(self.sandbox).add_to(application)
        return application


def run_sandbox(options: Options, announce: Callable[[str], None]) -> None:
    """Serve until SIGTERM or Ctrl-C; call `announce` with the base URL once the server listens."""
    try:
        import uvloop  # noqa: PLC0415 - not available on Windows

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
    server = SandboxServer(options)
    announce(await server.start())
    await stop.wait()
    await server.stop()
