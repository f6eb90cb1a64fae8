"""An ASGI application behind a real HTTP server in the test's own event loop."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from typing import TYPE_CHECKING, Any

import uvicorn

if TYPE_CHECKING:
    from collections.abc import AsyncIterator


@contextlib.asynccontextmanager
async def answering(application: Any, listener: socket.socket) -> AsyncIterator[None]:
    """Answer on this socket until the block ends.

    What is still open then is cut off: uvicorn's own end looks only every 100 ms whether it may stop.
    """
    server = uvicorn.Server(uvicorn.Config(application, log_config=None, access_log=False, lifespan="off"))
    task = asyncio.create_task(server.serve(sockets=[listener]))
    try:
        yield
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task
        for one in server.servers:
            one.close()
        for connection in list(server.server_state.connections):
            connection.shutdown()
