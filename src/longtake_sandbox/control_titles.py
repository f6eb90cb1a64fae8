"""The knobs of the titles: what is true about them, and their covers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from aiohttp import web
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from longtake_sandbox.bangumi import cover_url
from longtake_sandbox.control import refused, wrong
from longtake_sandbox.exchange import json_response

if TYPE_CHECKING:
    from longtake_sandbox.box import Box
    from longtake_sandbox.titles import Title


class CoverBody(BaseModel):
    """Another picture behind the address of a title's cover, and of its poster."""

    model_config = ConfigDict(extra="forbid")

    bangumi_id: int
    cover: int = Field(ge=0)


class TitlesControl:
    """The handlers of the knobs."""

    def __init__(self, box: Box) -> None:
        self._box = box

    def add_to(self, application: web.Application) -> None:
        """Add the knobs to a server."""
        application.add_routes([web.get("/_titles", self.list_titles), web.post("/_titles", self.change_cover)])

    async def list_titles(self, request: web.Request) -> web.Response:
        """Tell the truth about all titles, or so many after an id."""
        after, limit = request.query.get("after", "0"), request.query.get("limit")
        if not after.isdecimal() or not (limit is None or limit.isdecimal()):
            return wrong("after is the bangumi_id of a title, limit a number of titles")
        catalogue = self._box.catalogue
        titles = catalogue.after(int(after), None if limit is None else int(limit))
        return json_response({"titles": [self._told(title) for title in titles], "total": len(catalogue.titles)})

    async def change_cover(self, request: web.Request) -> web.Response:
        try:
            body = CoverBody.model_validate_json(await request.read())
        except ValidationError as error:
            return refused(error)
        title = self._box.catalogue.title(body.bangumi_id)
        if title is None:
            return wrong("there is no such title", 404)
        self._box.covers.change(title.bangumi_id, body.cover, self._box.now())
        return json_response(self._told(title))

    def _told(self, title: Title) -> dict[str, Any]:
        return {
            "bangumi_id": title.bangumi_id,
            "names": title.names._asdict(),
            "year": title.air_date.year,
            "air_date": title.air_date.isoformat(),
            "cover_url": cover_url(self._box, title),
            "cover": self._box.covers.of(title.bangumi_id).number,
            "kind": title.kind,
            "tmdb_id": title.tmdb_id,
            "tmdb_ids": title.tmdb_ids,
        }
