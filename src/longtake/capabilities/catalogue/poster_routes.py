"""Posters over HTTP: open to all, as pictures on pages are; caches keep them, since a changed one has another name."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Path, Request, Response

from longtake.adapters.storage import Storage
from longtake.adapters.storage.keys import poster_key
from longtake.adapters.storage.media import type_of_key
from longtake.capabilities.catalogue.poster_store import forget_file, names_file
from longtake.capabilities.catalogue.poster_urls import LOCAL_PREFIX
from longtake.db import Database
from longtake.errors import NotFound
from longtake.http.file_responses import FILE_ANSWERS, ServedFile, send_file
from longtake.http.problem_schema import problems

FILE = r"^[0-9A-Za-z_-][0-9A-Za-z._-]{0,100}$"
CACHING = "public, max-age=31536000, immutable"


def build_routes(database: Database, storage: Storage) -> APIRouter:
    """Return the route."""
    router = APIRouter(tags=["catalogue"])

    async def poster(
        file: Annotated[str, Path(pattern=FILE, description="Its name.", examples=["0f343b0931126a20.jpg"])],
        request: Request,
    ) -> Response:
        """A title's `poster_url` or `thumbnail_url`. Needs no token."""
        key = poster_key(file)
        facts = await storage.facts(key)
        if facts is None:
            if await database.read(names_file, file):
                # Removed behind our back: it is fetched again, and titles point to its source meanwhile.
                await database.run(forget_file, file)
            raise NotFound(f"There is no poster {file!r}.", hint="Titles name theirs in `poster_url`.")
        served = ServedFile(
            facts.size,
            type_of_key(key),
            facts.etag or f'"{file}"',
            file,
            lambda start, end: storage.read(key, start, end),
            CACHING,
        )
        return send_file(request, served)

    options: dict[str, Any] = {
        "response_class": Response,
        "responses": FILE_ANSWERS | problems("NOT_FOUND", "REQUEST_INVALID", "STORAGE_UNAVAILABLE"),
    }
    router.get(LOCAL_PREFIX + "{file}", summary="A poster", **options)(poster)
    router.head(LOCAL_PREFIX + "{file}", summary="Headers of a poster", **options)(poster)
    return router
