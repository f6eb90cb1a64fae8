"""Assembles settings, database, engine, worker and web. Only this layer knows all of them."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from longtake.server.application import Application

__all__ = ["Application"]


def __getattr__(name: str) -> Any:
    # Loaded when it is asked for: a command that only asks a running server needs none of it.
    if name == "Application":
        from longtake.server.application import Application  # noqa: PLC0415

        return Application
    raise AttributeError(name)
