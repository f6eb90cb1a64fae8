"""TMDB's API: the shows of a year, searches by name, and the other names of a show."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from longtake.adapters.providers.calls import ProviderCalls
from longtake.adapters.providers.errors import ProviderError
from longtake.validation import clean_plain_text

if TYPE_CHECKING:
    from longtake.adapters.net import HttpClient, Response
    from longtake.clock import Clock
    from longtake.engine.lanes import Lane

OK = 200
KEY_SETTING = "tmdb_api_key"
#: TMDB answers with an error to later pages, even if there are more.
MOST_PAGES = 500
LONGEST_TEXT = 500
MOST_ID = 2**53


@dataclass(frozen=True, slots=True)
class Show:
    """A show in TMDB's lists."""

    id: int
    name: str
    original_name: str
    language: str
    first_air_date: str
    popularity: float

    @property
    def year(self) -> int | None:
        """Return the year in which it first aired."""
        return int(self.first_air_date[:4]) if self.first_air_date[:4].isdecimal() else None


@dataclass(frozen=True, slots=True)
class Shows:
    """One page of shows, and the number of pages."""

    shows: list[Show]
    pages: int


class Tmdb:
    """TMDB's client. All calls share one lane because they share one rate limit."""

    name = "tmdb"

    def __init__(self, client: HttpClient, base_url: str, key: Callable[[], str], lane: Lane, clock: Clock) -> None:
        self.submit_lane = self.query_lane = self.lane = lane
        self._key = key
        self._calls = ProviderCalls(
            client, self.name, base_url, key, key_setting=KEY_SETTING, key_header=_key_header, clock=clock
        )

    @property
    def configured(self) -> bool:
        """Say whether there is a key."""
        return self._calls.configured

    async def japanese_shows_of(self, year: int, page: int) -> Shows:
        """Return a page of the Japanese shows that first aired in the year."""
        params = {"with_original_language": "ja", "first_air_date_year": str(year), "page": str(page)}
        return _shows(await self._ask("/discover/tv", params))

    async def search(self, name: str) -> list[Show]:
        """Return the shows that have this original, translated or alternative name."""
        return _shows(await self._ask("/search/tv", {"query": name})).shows

    async def show(self, show_id: int) -> Show | None:
        """Return the show with this id, or None."""
        content = await self._details(show_id, {})
        return None if content is None else _show(content)

    async def other_names(self, show_id: int) -> list[str]:
        """Return the alternative and translated names of a show; an empty list if TMDB does not have it."""
        content = await self._details(show_id, {"append_to_response": "alternative_titles,translations"})
        return [] if content is None else _other_names(content)

    async def _details(self, show_id: int, params: Mapping[str, str]) -> dict[str, Any] | None:
        answer = await self._answer(f"/tv/{show_id}", params)
        if answer.status == 404 and self._calls.content(answer) is not None:  # noqa: PLR2004 - its own "not found"
            return None
        return self._read(answer)

    async def _ask(self, path: str, params: Mapping[str, str]) -> dict[str, Any]:
        return self._read(await self._answer(path, params))

    async def _answer(self, path: str, params: Mapping[str, str]) -> Response:
        key = self._key().strip()
        # A v3 key can only go into the query string, which logs and errors never show.
        return await self._calls.query(path, params if _is_token(key) else {**params, "api_key": key})

    def _read(self, answer: Response) -> dict[str, Any]:
        content = self._calls.content(answer)
        if answer.status == OK and content is not None:
            return content
        if content is None or "status_message" not in content:
            raise self._calls.unrecognized(answer, submitting=False)
        raise self._error(answer, content)

    def _error(self, answer: Response, content: dict[str, Any]) -> ProviderError:
        said = content.get("status_message")
        match answer.status:
            case 401 | 403:
                return self._calls.unauthorized(said)
            case 429:
                return self._calls.busy(said, self._calls.retry_after(answer))
            case status if 400 <= status < 500:  # noqa: PLR2004 - the range of refusals
                return self._calls.refused(self._calls.code(content.get("status_code"), str(status)), said)
        return self._calls.unavailable(said, self._calls.retry_after(answer))


def _is_token(key: str) -> bool:
    """Return whether the key is a v4 token, which has three parts. A v3 key is one word."""
    return key.count(".") == 2  # noqa: PLR2004 - header, claims, signature


def _key_header(key: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {key}"} if _is_token(key) else {}


def _shows(content: dict[str, Any]) -> Shows:
    results = content.get("results")
    found = [_show(one) for one in results if isinstance(one, dict)] if isinstance(results, list) else []
    pages = content.get("total_pages")
    return Shows([one for one in found if one is not None], min(pages if isinstance(pages, int) else 1, MOST_PAGES))


def _show(content: dict[str, Any]) -> Show | None:
    """Return the show, or None if its id is missing or too large for the database."""
    show_id, popularity = content.get("id"), content.get("popularity")
    if not isinstance(show_id, int) or not 0 < show_id <= MOST_ID:
        return None
    words = ("name", "original_name", "original_language", "first_air_date")
    said = {key: clean_plain_text(str(content.get(key) or ""), most=LONGEST_TEXT) for key in words}
    return Show(
        show_id,
        said["name"],
        said["original_name"],
        said["original_language"],
        said["first_air_date"],
        float(popularity) if isinstance(popularity, int | float) else 0.0,
    )


def _other_names(content: dict[str, Any]) -> list[str]:
    alternative = [one.get("title") for one in _listed(content, "alternative_titles", "results")]
    translated = [one.get("data") for one in _listed(content, "translations", "translations")]
    names = [*alternative, *(one.get("name") for one in translated if isinstance(one, dict))]
    return [clean_plain_text(name, most=LONGEST_TEXT) for name in names if isinstance(name, str) and name]


def _listed(content: dict[str, Any], part: str, inside: str) -> list[dict[str, Any]]:
    appended = content.get(part)
    listed = appended.get(inside) if isinstance(appended, dict) else None
    return [one for one in listed if isinstance(one, dict)] if isinstance(listed, list) else []
