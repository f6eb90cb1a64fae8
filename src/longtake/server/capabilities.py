"""The list of all capabilities, and of the services with tables, routes or jobs."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from importlib import import_module
from typing import TYPE_CHECKING, Any

from longtake.actions import Actions
from longtake.capability import Capability, Context, SnapshotPart

if TYPE_CHECKING:
    from fastapi import APIRouter

    from longtake.engine.engine import Engine

#: Packages with a module `capability`. A later one may need the tables and the offers of an earlier one.
CAPABILITIES = (
    "longtake.services.accounts",
    "longtake.services.credits",
    "longtake.services.conversations",
    "longtake.services.assets",
    "longtake.services.webhooks",
    "longtake.services.live",
    "longtake.services.models",
    "longtake.capabilities.generation",
    "longtake.capabilities.media",
    "longtake.capabilities.scenes",
    "longtake.capabilities.catalogue",
)


def add_capabilities(context: Context, packages: Iterable[str] = CAPABILITIES) -> None:
    """Make the capability of each package, and keep it in the context for those after it."""
    for package in packages:
        made: Capability = import_module(f"{package}.capability").capability(context)
        context.capabilities.append(made)


def operator_actions(vault: Callable[[], Any], packages: Iterable[str] = CAPABILITIES) -> Actions:
    """Return the actions of the engine, of the vault and of the packages."""
    return Actions(["longtake.server", "longtake.services.vault", *packages], vault)


def build_routers(context: Context, engine: Engine) -> list[APIRouter]:
    """Return the routes of all capabilities."""
    functions = [_function(one.routers) for one in context.capabilities if one.routers]
    return [router for routers in functions for router in routers(context, engine)]


def snapshot_parts(context: Context) -> list[SnapshotPart[Any]]:
    """Return the parts of the snapshot."""
    return [_function(one.snapshot)(context) for one in context.capabilities if one.snapshot]


def _function(place: str) -> Callable[..., Any]:
    module, _colon, name = place.partition(":")
    found: Callable[..., Any] = getattr(import_module(module), name)
    return found
