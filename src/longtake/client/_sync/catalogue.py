"""Made from _async/catalogue.py by scripts/make_client.py: do not edit."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from longtake.client.shapes import CatalogueStatus, ImportedTitle, PosterDownload, Title, TitlePage
from longtake.client.wire import LIMIT_SECONDS, query, route

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from longtake.client._sync.resources import Api

#: How long a server waits for running work when the catalogue is stopped.
REST_SECONDS = 20.0


class Catalogue:
    """Titles with their posters and ids. Changes need the scope `operate`."""

    def __init__(self, api: Api) -> None:
        self._api = api

    def add(self, **fields: Any) -> Title:
        """Add a title or update an existing one; the fields are those of the HTTP API."""
        return cast("Title", self._send("titles", content=fields))

    def add_many(self, titles: Sequence[Mapping[str, Any]]) -> Sequence[ImportedTitle]:
        """Add or update up to 500 titles; return each outcome, in order. Repeating changes nothing."""
        answer = self._send("titles", "import", content={"titles": [*titles]})
        return cast("Sequence[ImportedTitle]", answer["items"])

    def list(
        self,
        *,
        poster: str | None = None,
        tmdb: str | None = None,
        in_trouble: bool = False,
        bangumi_id: int | None = None,
        year: int | None = None,
        before: str | None = None,
        limit: int = 50,
    ) -> TitlePage:
        """Return a page, newest first; its `next` is the `before` of the page after."""
        trouble = "true" if in_trouble else None
        filters = query(
            poster=poster, tmdb=tmdb, in_trouble=trouble, bangumi_id=bangumi_id, year=year, before=before, limit=limit
        )
        return cast("TitlePage", self._api.get(route("catalogue", "titles") + filters))

    def get(self, title_id: str) -> Title:
        """Return a title as it is now."""
        return cast("Title", self._api.get(route("catalogue", "titles", title_id)))

    def choose(self, title_id: str, tmdb_id: int | None) -> Title:
        """Set the TMDB show of a title; None means that TMDB does not have it."""
        return cast("Title", self._send("titles", title_id, "match", content={"tmdb_id": tmdb_id}))

    def look_up_again(self, title_id: str) -> Title:
        """Forget a title's TMDB show and look it up again."""
        return cast("Title", self._send("titles", title_id, "match", content={"automatic": True}))

    def delete(self, title_id: str) -> None:
        """Delete a title, and its poster if no other title has it."""
        self._api.send("DELETE", route("catalogue", "titles", title_id), repeatable=False)

    def download(self, posters: Mapping[str, str]) -> Sequence[PosterDownload]:
        """Give titles, by id, the posters at these addresses, and fetch them now."""
        downloads = [{"title_id": title_id, "url": url} for title_id, url in posters.items()]
        answer = self._send("posters", content={"downloads": downloads})
        return cast("Sequence[PosterDownload]", answer["items"])

    def sync(self) -> str:
        """Start a sync now; return its job id."""
        return cast("str", (self._send("sync"))["job_id"])

    def refresh_calendar(self) -> str:
        """Fetch Bangumi's calendar now, then sync; return the job id."""
        return cast("str", (self._send("calendar"))["job_id"])

    def status(self) -> CatalogueStatus:
        """Return the state of the catalogue."""
        return cast("CatalogueStatus", self._api.get(route("catalogue", "status")))

    def stop(self) -> bool:
        """Stop work on the catalogue; return whether all of it has ended."""
        answer = self._send("shutdown", seconds=LIMIT_SECONDS + REST_SECONDS)
        return cast("bool", answer["at_rest"])

    def start(self) -> None:
        """Resume work on the catalogue."""
        self._send("start")

    def _send(self, *parts: str, content: Any = None, seconds: float = LIMIT_SECONDS) -> Any:
        """Send a request that may be repeated."""
        return self._api.post(route("catalogue", *parts), content, repeatable=True, seconds=seconds)
