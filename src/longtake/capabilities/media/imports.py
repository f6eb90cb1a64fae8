"""Bringing in files of one's own by their address: checked at once, copied by the jobs that the rows start.

One user's same address is the same asset, however often it is sent: a lost answer, a file imported twice and two
requests at once all find what is there.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal
from urllib.parse import urlsplit

from sqlalchemy import ColumnElement, func, literal_column, select

from longtake.db.dialects import POSTGRESQL
from longtake.engine.events import append_events
from longtake.errors import LongtakeError, TooManyImports
from longtake.plain_text import check_plain_text
from longtake.services.assets import Asset, NewAsset, assets, find_assets, register_assets
from longtake.services.assets.store import stored_data

if TYPE_CHECKING:
    from longtake.adapters.net import HttpClient
    from longtake.db import Database, Transaction

Kind = Literal["image", "video"]

URL_LIMIT = 8_000
TITLE_LIMIT = 500
#: What an address without a kind most likely leads to; the bytes decide whether it is kept.
IMAGE_ENDINGS = (".png", ".jpg", ".jpeg", ".webp", ".gif")
UNDER_WAY = ("pending", "downloading", "uploading")
#: Written as the partial index has it: SQLite does not see that a parameter means the same.
IS_IMPORT: ColumnElement[bool] = literal_column("assets.role = 'import'")


@dataclass(frozen=True, slots=True)
class Wanted:
    """A file to bring in, as its owner names it."""

    url: str
    kind: Kind | None = None
    title: str | None = None


@dataclass(frozen=True, slots=True)
class Brought:
    """What became of a wanted file: its asset, new or there already; or why there is none."""

    asset: Asset | None = None
    added: bool = False
    refused: LongtakeError | None = None


class Adding:
    """Brings in files. ``most_unfinished`` is how many one user may have under way."""

    def __init__(self, database: Database, client: HttpClient, most_unfinished: int) -> None:
        self._database = database
        self._client = client
        self._most = most_unfinished

    async def add(self, user_id: str, wanted: Wanted, request_id: str | None) -> Brought:
        """Bring in one file. Raises what is wrong about it."""
        [brought] = await self.add_many(user_id, [wanted], request_id)
        if brought.refused is not None:
            raise brought.refused
        return brought

    async def add_many(self, user_id: str, wanted: Sequence[Wanted], request_id: str | None) -> list[Brought]:
        """Bring in files in one transaction, in their order; one that is refused does not keep the others out."""
        checked = [self._check(user_id, one) for one in wanted]
        news = [one for one in checked if isinstance(one, NewAsset)]
        kept = await self._database.run(write_imports, user_id, news, self._most, request_id) if news else {}
        names = [asset_id for asset_id, _added in kept.values()]
        found = await self._database.read(find_assets, names, user_id, as_user=user_id)
        return [self._brought(one, kept, found) for one in checked]

    def _check(self, user_id: str, wanted: Wanted) -> NewAsset | LongtakeError:
        try:
            check_plain_text("url", wanted.url, most=URL_LIMIT, least=1)
            check_plain_text("title", wanted.title or "", most=TITLE_LIMIT)
            self._client.check_url(wanted.url)
        except LongtakeError as error:
            return error
        return NewAsset(
            user_id=user_id,
            kind=wanted.kind or likely_kind(wanted.url),
            role="import",
            source_url=wanted.url,
            # Nobody says how long it lives.
            source_expires_in=None,
            title=wanted.title or None,
        )

    def _brought(
        self, checked: NewAsset | LongtakeError, kept: dict[str, tuple[str, bool]], found: dict[str, Asset]
    ) -> Brought:
        if isinstance(checked, LongtakeError):
            return Brought(refused=checked)
        asset_id, added = kept.get(checked.source_url or "", ("", False))
        if asset_id in found:
            # Twice in one list: only the first has brought it in.
            return Brought(found[asset_id], added and asset_id == checked.id)
        return Brought(refused=too_many(self._most))


def likely_kind(url: str) -> Kind:
    """Say what the address leads to by how its path ends; most of what is brought in is video."""
    return "image" if urlsplit(url).path.lower().endswith(IMAGE_ENDINGS) else "video"


def too_many(most: int) -> TooManyImports:
    """Return the refusal of one file more."""
    return TooManyImports(f"{most:,} files are being brought in for this user; wait until some are here.", limit=most)


def write_imports(
    tx: Transaction, user_id: str, news: Sequence[NewAsset], most: int, request_id: str | None = None
) -> dict[str, tuple[str, bool]]:
    """Write those that are not there and for which there is room; return id, and whether it is new, by address."""
    _one_at_a_time(tx, user_id)
    urls = {new.source_url for new in news}
    mine = (assets.c.user_id == user_id, IS_IMPORT, assets.c.source_url.in_(urls))
    there = tx.execute(select(assets.c.source_url, assets.c.id).where(*mine).order_by(assets.c.id.desc()))
    kept: dict[str, tuple[str, bool]] = {row.source_url: (row.id, False) for row in there}
    room = most - _unfinished(tx, user_id, most)
    fresh: dict[str, NewAsset] = {}
    for new in news:
        url = new.source_url or ""
        if url not in kept and url not in fresh and len(fresh) < room:
            fresh[url] = new
    register_assets(tx, list(fresh.values()), request_id)
    append_events(tx, [("asset.added", new.id, user_id, stored_data(new)) for new in fresh.values()])
    return kept | {url: (new.id, True) for url, new in fresh.items()}


def _unfinished(tx: Transaction, user_id: str, most: int) -> int:
    mine: tuple[Any, ...] = (assets.c.user_id == user_id, IS_IMPORT, assets.c.mirror_state.in_(UNDER_WAY))
    some = select(assets.c.id).where(*mine).limit(most).subquery()
    return int(tx.execute(select(func.count()).select_from(some)).scalar_one())


def _one_at_a_time(tx: Transaction, user_id: str) -> None:
    """Let one request of a user at a time look and write. SQLite's one writer is a lock already."""
    if tx.dialect == POSTGRESQL:
        tx.sql("SELECT pg_advisory_xact_lock(hashtextextended(%s, 0))", (f"assets.add {user_id}",))
