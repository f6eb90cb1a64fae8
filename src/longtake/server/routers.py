"""The routes of all capabilities. Only a server imports this, because it loads FastAPI and all request models."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from longtake.capabilities.catalogue import routes as catalogue_routes
from longtake.capabilities.generation import routes as generation_routes
from longtake.capabilities.generation.removal import require_unused
from longtake.capabilities.media import routes as media_routes
from longtake.capabilities.media.references import References
from longtake.capabilities.scenes import routes as scene_routes
from longtake.server import drain_routes, snapshot
from longtake.services.conversations import routes as conversation_routes
from longtake.services.credits import routes as credit_routes
from longtake.services.live import routes as live_routes
from longtake.services.webhooks import routes as webhook_routes
from longtake.services.webhooks.service import Webhooks

if TYPE_CHECKING:
    from fastapi import APIRouter

    from longtake.capabilities.generation.service import Generation
    from longtake.engine.engine import Engine
    from longtake.server.capabilities import Capabilities


def build_routers(parts: Capabilities, generation: Generation) -> list[APIRouter]:
    """Return the routes, of the catalogue too."""
    database, engine, links = parts.database, generation.engine, generation.links
    media = media_routes.Media(
        database,
        engine,
        parts.storage,
        links,
        parts.imports(),
        References(database, parts.storage),
        require_unused,
        parts.settings.reference_bytes,
    )
    return [
        generation_routes.build_routes(generation),
        scene_routes.build_routes(parts.scenes(generation)),
        snapshot.build_routes(generation),
        drain_routes.build_routes(_processing(parts, engine)),
        conversation_routes.build_routes(database),
        credit_routes.build_routes(database),
        webhook_routes.build_routes(Webhooks(database, engine, parts.client, parts.vault, parts.clock)),
        live_routes.build_routes(parts.streams),
        media_routes.build_routes(media),
        catalogue_routes.build_routes(parts.catalogue.catalogue(engine)),
        catalogue_routes.build_poster_routes(database, parts.storage),
    ]


def _processing(parts: Capabilities, engine: Engine) -> drain_routes.Processing:
    settings = parts.settings
    return drain_routes.Processing(
        engine,
        settings.internal_secret,
        partial(parts.dispatcher, engine),
        settings.lease_seconds,
        settings.worker_concurrency,
    )
