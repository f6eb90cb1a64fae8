"""The client for Python programs: the verbs of the HTTP API, for programs with or without an event loop.

Names are imported on first use, so that a program without an event loop does not load aiohttp.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from longtake.client._async.client import AsyncClient
    from longtake.client._sync.client import Client
    from longtake.client.errors import DownloadFailed, LongtakeApiError, ServerUnreachable
    from longtake.client.shapes import Asset, Balance, Me, Model, Run, Snapshot, Task, TaskPage
    from longtake.client.wire import Event

__all__ = [
    "Asset",
    "AsyncClient",
    "Balance",
    "Client",
    "DownloadFailed",
    "Event",
    "LongtakeApiError",
    "Me",
    "Model",
    "Run",
    "ServerUnreachable",
    "Snapshot",
    "Task",
    "TaskPage",
]

_HOMES = {
    "_async.client": ("AsyncClient",),
    "_sync.client": ("Client",),
    "errors": ("DownloadFailed", "LongtakeApiError", "ServerUnreachable"),
    "shapes": ("Asset", "Balance", "Me", "Model", "Run", "Snapshot", "Task", "TaskPage"),
    "wire": ("Event",),
}
_HOME = {name: module for module, names in _HOMES.items() for name in names}


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'longtake.client' has no attribute {name!r}")
    value = globals()[name] = getattr(importlib.import_module(f"longtake.client.{_HOME[name]}"), name)
    return value
