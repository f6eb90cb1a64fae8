"""Made from catalogue_asynchronous.py by scripts/make_client.py: do not change it here."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, cast

from longtake.client.catalogue_shapes import BegunDownload, BroughtTitle, CatalogueStatus, Title, TitlePage
from longtake.client.wire import LIMIT_SECONDS, query, route

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from longtake.client.resources_synchronous import Caller

#: How long a server waits for what is under way before it says that not all is at rest.
REST_SECONDS = 20.0


class Catalogue:
    """Titles with their posters and ids; changing anything needs the scope `operate`."""

    def __init__(self, caller: Caller) -> None:
        self._caller = caller

    def add(self, **fields: Any) -> Title:
        """Write a title, or what is new about one that is there; the fields are those of the HTTP API."""
        return cast("Title", self._send("titles", content=fields))

    def add_many(self, titles: Sequence[Mapping[str, Any]]) -> Sequence[BroughtTitle]:
        """Write up to 500 titles; return what became of each, in order. The same again changes nothing."""
        answer = self._send("titles", "import", content={"titles": [*titles]})
        return cast("Sequence[BroughtTitle]", answer["items"])

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
        wanted = query(
            poster=poster, tmdb=tmdb, in_trouble=trouble, bangumi_id=bangumi_id, year=year, before=before, limit=limit
        )
        return cast("TitlePage", self._caller.get(route("catalogue", "titles") + wanted))

    def get(self, title_id: str) -> Title:
        """Return a title as it is now."""
        return cast("Title", self._caller.get(route("catalogue", "titles", title_id)))

    def choose(self, title_id: str, tmdb_id: int | None) -> Title:
        """Say which show of TMDB a title is; None: TMDB does not have it."""
        return cast("Title", self._send("titles", title_id, "match", content={"tmdb_id": tmdb_id}))

    def look_up_again(self, title_id: str) -> Title:
        """Forget which show a title is, and have it looked up."""
        return cast("Title", self._send("titles", title_id, "match", content={"automatic": True}))

    def delete(self, title_id: str) -> None:
        """Delete a title, and its poster if no other title has it."""
        self._caller.send("DELETE", route("catalogue", "titles", title_id), repeatable=False)

    def download(self, posters: Mapping[str, str]) -> Sequence[BegunDownload]:
        """Give titles, by their ids, the posters at these addresses, and have them fetched now."""
        wanted = [{"title_id": title_id, "url": url} for title_id, url in posters.items()]
        answer = self._send("posters", content={"downloads": wanted})
        return cast("Sequence[BegunDownload]", answer["items"])

    def sync(self) -> str:
        """Have a sync begin now; return its job."""
        return cast("str", (self._send("sync"))["job_id"])

    def refresh_calendar(self) -> str:
        """Have Bangumi's calendar fetched now, and a sync after it; return its job."""
        return cast("str", (self._send("calendar"))["job_id"])

    def status(self) -> CatalogueStatus:
        """Return how the catalogue stands."""
        return cast("CatalogueStatus", self._caller.get(route("catalogue", "status")))

    def stop(self) -> bool:
        """Let no work on the catalogue begin any more; say whether all of it has come to rest."""
        answer = self._send("shutdown", seconds=LIMIT_SECONDS + REST_SECONDS)
        return cast("bool", answer["at_rest"])

    def start(self) -> None:
        """Let it go on."""
        self._send("start")

    def _send(self, *parts: str, content: Any = None, seconds: float = LIMIT_SECONDS) -> Any:
        """Send what may be sent twice: the same again changes nothing."""
        body = None if content is None else json.dumps(content).encode()
        headers = {"Content-Type": "application/json"}
        return self._caller.send("POST", route("catalogue", *parts), body, headers, seconds=seconds)
