"""Bangumi's API: the calendar of what is on air, and single subjects."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import orjson

from longtake.adapters.net.errors import NetError
from longtake.adapters.net.responses import retry_after_seconds
from longtake.adapters.providers.calls import plain_words
from longtake.adapters.providers.errors import ProviderBusy, ProviderRefused, ProviderUnavailable

if TYPE_CHECKING:
    from longtake.adapters.net import HttpClient
    from longtake.clock import Clock
    from longtake.engine.lanes import Lane

NAME = "bangumi"
OK, NOT_FOUND, TOO_MANY = 200, 404, 429
SECONDS = 20.0
ANSWER_BYTES = 8_000_000
MOST_ID = 2**53
#: Cover sizes, largest first.
IMAGE_SIZES = ("large", "common", "medium", "small", "grid")


@dataclass(frozen=True, slots=True)
class Subject:
    """A title in Bangumi. Unknown fields are empty."""

    id: int
    name: str
    name_chinese: str
    year: int | None
    cover: str


class Bangumi:
    """Bangumi's client. The API needs no key, but a User-Agent that identifies the application."""

    name = NAME
    configured = True

    def __init__(self, client: HttpClient, base_url: str, user_agent: str, lane: Lane, clock: Clock) -> None:
        self.submit_lane = self.query_lane = self.lane = lane
        self._client = client
        self._base_url = base_url.rstrip("/")
        self._user_agent = user_agent
        self._clock = clock

    async def calendar(self) -> list[Subject]:
        """Return every subject that is on air, once each."""
        content = await self._ask("/calendar")
        if not isinstance(content, list):
            raise ProviderUnavailable("bangumi answered without a calendar.", provider=NAME)
        items = (item for day in content if isinstance(day, dict) for item in day.get("items") or ())
        found = (_subject(item) for item in items if isinstance(item, dict))
        return list({one.id: one for one in found if one is not None}.values())

    async def subject(self, subject_id: int) -> Subject | None:
        """Return the subject with this id, or None."""
        content = await self._ask(f"/v0/subjects/{subject_id}", may_be_missing=True)
        return _subject(content) if isinstance(content, dict) else None

    async def _ask(self, path: str, *, may_be_missing: bool = False) -> Any:
        headers = {"User-Agent": self._user_agent, "Accept": "application/json"}
        try:
            answer = await self._client.request(
                "GET", self._base_url + path, headers=headers, seconds=SECONDS, most_bytes=ANSWER_BYTES, redirects=3
            )
        except NetError as error:
            raise ProviderUnavailable(f"bangumi cannot be reached: {error.message}", provider=NAME) from None
        if answer.status == OK:
            try:
                return orjson.loads(answer.body)
            except orjson.JSONDecodeError:
                raise ProviderUnavailable("bangumi's answer is not JSON.", provider=NAME) from None
        if answer.status == NOT_FOUND and may_be_missing:
            return None
        retry_after = retry_after_seconds(answer.headers.get("Retry-After"), self._clock.now())
        said = f"bangumi answered {answer.status}. {plain_words(answer.body[:2_000].decode(errors='replace'))}".strip()
        if answer.status == TOO_MANY:
            raise ProviderBusy(said, retry_after=retry_after, provider=NAME)
        if 400 <= answer.status < 500:  # noqa: PLR2004 - the range of refusals
            hint = "Bangumi refuses clients without an identifying User-Agent. Set LONGTAKE_BANGUMI_USER_AGENT."
            raise ProviderRefused(said, hint, fail_code=str(answer.status), provider=NAME)
        raise ProviderUnavailable(said, retry_after=retry_after, provider=NAME)


def _subject(content: dict[str, Any]) -> Subject | None:
    """Return the subject, or None if its id is missing or too large for the database."""
    subject_id = content.get("id")
    if not isinstance(subject_id, int) or not 0 < subject_id <= MOST_ID:
        return None
    images = content.get("images")
    sizes = (images.get(size) for size in IMAGE_SIZES) if isinstance(images, dict) else ()
    date = str(content.get("air_date") or content.get("date") or "")
    year = int(date[:4]) if date[:4].isdecimal() and int(date[:4]) else None
    name, chinese = (str(content.get(key) or "").strip() for key in ("name", "name_cn"))
    return Subject(subject_id, name, chinese, year, next((str(one) for one in sizes if one), ""))
