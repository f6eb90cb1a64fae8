"""The client for Python programs: the same verbs as the HTTP API, with an event loop or without.

Names are imported when first used: a program without an event loop need not wait for aiohttp.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from longtake.client.asynchronous import AsyncClient
    from longtake.client.failures import DownloadFailed, LongtakeApiError, ServerUnreachable
    from longtake.client.run_shapes import Run
    from longtake.client.shapes import Asset, Balance, Event, Me, Model, Snapshot, Task, TaskPage
    from longtake.client.synchronous import Client

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
    "asynchronous": ("AsyncClient",),
    "synchronous": ("Client",),
    "failures": ("DownloadFailed", "LongtakeApiError", "ServerUnreachable"),
    "run_shapes": ("Run",),
    "shapes": ("Asset", "Balance", "Event", "Me", "Model", "Snapshot", "Task", "TaskPage"),
}
_HOME = {name: module for module, names in _HOMES.items() for name in names}


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'longtake.client' has no attribute {name!r}")
    value = globals()[name] = getattr(importlib.import_module(f"longtake.client.{_HOME[name]}"), name)
    return value
