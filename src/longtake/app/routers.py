"""The routes of all capabilities. Only a server imports this: FastAPI and every request's model come with it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from longtake.assets import adding_routes
from longtake.assets import deleting_routes as asset_deleting_routes
from longtake.assets import routes as asset_routes
from longtake.assets.references import References
from longtake.catalogue import routes as catalogue_routes
from longtake.catalogue import serving as poster_routes
from longtake.conversations import routes as conversation_routes
from longtake.credits import routes as credit_routes
from longtake.generation import routes as generation_routes
from longtake.generation.deleting import require_unused
from longtake.live import routes as live_routes
from longtake.scenes import routes as scene_routes
from longtake.web import processing, snapshot
from longtake.webhooks import routes as webhook_routes
from longtake.webhooks.service import Webhooks

if TYPE_CHECKING:
    from fastapi import APIRouter

    from longtake.app.capabilities import Capabilities
    from longtake.engine.engine import Engine
    from longtake.generation.service import Generation


def build_routers(parts: Capabilities, generation: Generation) -> list[APIRouter]:
    """Return the routes, of the catalogue too."""
    database, engine, links = parts.database, generation.engine, generation.links
    references = References(database, engine, parts.storage)
    most_bytes = parts.settings.reference_bytes
    return [
        generation_routes.build_routes(generation),
        scene_routes.build_routes(parts.scenes(generation)),
        snapshot.build_routes(generation),
        processing.build_routes(_processing(parts, engine)),
        conversation_routes.build_routes(database),
        credit_routes.build_routes(database),
        webhook_routes.build_routes(Webhooks(database, parts.engine, parts.client, parts.vault, parts.clock)),
        live_routes.build_routes(parts.streams),
        asset_deleting_routes.build_routes(database, engine, require_unused),
        adding_routes.build_routes(database, engine, links, parts.adding()),
        asset_routes.build_routes(database, parts.storage, links, references, reference_bytes=most_bytes),
        catalogue_routes.build_routes(parts.catalogue.catalogue()),
        poster_routes.build_routes(database, parts.storage),
    ]


def _processing(parts: Capabilities, engine: Engine) -> processing.Processing:
    settings = parts.settings
    return processing.Processing(
        engine, settings.internal_secret, parts.dispatcher, settings.lease_seconds, settings.worker_concurrency
    )
