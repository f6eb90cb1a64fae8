"""Imports: files that users bring in by address, one by one or as a CSV. The new rows start the jobs that copy them.

For one user the same address is the same asset: a repeated request, a file imported twice and two requests at once all
get the existing asset.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal
from urllib.parse import urlsplit

from sqlalchemy import ColumnElement, func, literal_column, select

from longtake.capabilities.media.errors import TooManyImports
from longtake.db.dialects import POSTGRESQL
from longtake.engine.events import append_events
from longtake.errors import LongtakeError
from longtake.import_rows import BadRow, Columns, read_csv
from longtake.services.assets import Asset, NewAsset, assets, find_assets, register_assets
from longtake.services.assets.store import stored_data
from longtake.validation import check_plain_text

if TYPE_CHECKING:
    from longtake.adapters.net import HttpClient
    from longtake.db import Database, Transaction

Kind = Literal["image", "video"]

KINDS: dict[str, Kind] = {"image": "image", "video": "video"}
COLUMNS = Columns(("url", "title", "kind"), frozenset({"url"}), "url, and if you like title and kind")
URL_LIMIT = 8_000
TITLE_LIMIT = 500
#: How the paths of images end, for addresses without a kind. The bytes decide later whether the file is kept.
IMAGE_ENDINGS = (".png", ".jpg", ".jpeg", ".webp", ".gif")
UNDER_WAY = ("pending", "downloading", "uploading")
#: Written as in the partial index: with a parameter SQLite does not use the index.
IS_IMPORT: ColumnElement[bool] = literal_column("assets.role = 'import'")


@dataclass(frozen=True, slots=True)
class ImportRequest:
    """A file that a user wants to import."""

    url: str
    kind: Kind | None = None
    title: str | None = None


@dataclass(frozen=True, slots=True)
class ImportResult:
    """The asset of a requested import, new or existing; or the error that refused it."""

    asset: Asset | None = None
    added: bool = False
    refused: LongtakeError | None = None


class Imports:
    """Imports files. ``most_unfinished`` is how many one user may have under way."""

    def __init__(self, database: Database, client: HttpClient, most_unfinished: int) -> None:
        self._database = database
        self._client = client
        self._most = most_unfinished

    async def add(self, user_id: str, request: ImportRequest, request_id: str | None) -> ImportResult:
        """Import one file. Raises the error that refuses it."""
        [result] = await self.add_many(user_id, [request], request_id)
        if result.refused is not None:
            raise result.refused
        return result

    async def add_many(
        self, user_id: str, requests: Sequence[ImportRequest], request_id: str | None
    ) -> list[ImportResult]:
        """Import files in one transaction; return their results in order. A refused file does not stop the others."""
        checked = [self._check(user_id, one) for one in requests]
        news = [one for one in checked if isinstance(one, NewAsset)]
        kept = await self._database.run(write_imports, user_id, news, self._most, request_id) if news else {}
        names = [asset_id for asset_id, _added in kept.values()]
        found = await self._database.read(find_assets, names, user_id, as_user=user_id)
        return [self._result(one, kept, found) for one in checked]

    def _check(self, user_id: str, request: ImportRequest) -> NewAsset | LongtakeError:
        try:
            check_plain_text("url", request.url, most=URL_LIMIT, least=1)
            check_plain_text("title", request.title or "", most=TITLE_LIMIT)
            self._client.check_url(request.url)
        except LongtakeError as error:
            return error
        return NewAsset(
            user_id=user_id,
            kind=request.kind or likely_kind(request.url),
            role="import",
            source_url=request.url,
            # How long the source lives is unknown.
            source_expires_in=None,
            title=request.title or None,
        )

    def _result(
        self, checked: NewAsset | LongtakeError, kept: dict[str, tuple[str, bool]], found: dict[str, Asset]
    ) -> ImportResult:
        if isinstance(checked, LongtakeError):
            return ImportResult(refused=checked)
        asset_id, added = kept.get(checked.source_url or "", ("", False))
        if asset_id in found:
            # When a list names an address twice, only its first entry counts as added.
            return ImportResult(found[asset_id], added and asset_id == checked.id)
        return ImportResult(refused=_too_many(self._most))


def likely_kind(url: str) -> Kind:
    """Return the kind that the ending of the path suggests: video, unless it is an image's."""
    return "image" if urlsplit(url).path.lower().endswith(IMAGE_ENDINGS) else "video"


def _too_many(most: int) -> TooManyImports:
    return TooManyImports(f"This user has {most:,} unfinished imports; wait until some have ended.", limit=most)


def write_imports(
    tx: Transaction, user_id: str, news: Sequence[NewAsset], most: int, request_id: str | None = None
) -> dict[str, tuple[str, bool]]:
    """Write the new assets for which there is room; return by address the asset id and whether it is new."""
    _lock_imports(tx, user_id)
    urls = {new.source_url for new in news}
    mine = (assets.c.user_id == user_id, IS_IMPORT, assets.c.source_url.in_(urls))
    existing = tx.execute(select(assets.c.source_url, assets.c.id).where(*mine).order_by(assets.c.id.desc()))
    kept: dict[str, tuple[str, bool]] = {row.source_url: (row.id, False) for row in existing}
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


def _lock_imports(tx: Transaction, user_id: str) -> None:
    """Let one request of a user at a time look and write. On SQLite the only writer holds a lock already."""
    if tx.dialect == POSTGRESQL:
        tx.sql("SELECT pg_advisory_xact_lock(hashtextextended(%s, 0))", (f"assets.add {user_id}",))


@dataclass(frozen=True, slots=True)
class ImportLine:
    """A valid row of an import file, and its line number."""

    number: int
    request: ImportRequest


@dataclass(slots=True)
class ImportFile:
    """The contents of an import file: valid rows, and the errors of the others by line number."""

    lines: list[ImportLine] = field(default_factory=list)
    bad: list[tuple[int, str]] = field(default_factory=list)


def read_import(text: Iterable[str]) -> ImportFile:
    """Return the rows of a CSV with a header. Raises ImportFileInvalid when the file as a whole is unusable."""
    found = ImportFile()
    for row in read_csv(text, COLUMNS):
        request = row.reason if isinstance(row, BadRow) else _request(row.cells)
        if isinstance(request, str):
            found.bad.append((row.number, request))
        else:
            found.lines.append(ImportLine(row.number, request))
    return found


def _request(cells: Mapping[str, str]) -> ImportRequest | str:
    """Return the row's request, or a sentence that says what is wrong with the row."""
    url, title, kind = (cells.get(name, "") for name in COLUMNS.names)
    if not url:
        return "It has no url."
    if not url.lower().startswith(("http://", "https://")):
        return "Its url does not begin with https:// or http://."
    if len(url) > URL_LIMIT:
        return f"Its url has more than {URL_LIMIT:,} characters."
    if len(title) > TITLE_LIMIT:
        return f"Its title has more than {TITLE_LIMIT:,} characters."
    if kind and kind.lower() not in KINDS:
        return f"Its kind is {kind[:20]!r}; it must be image or video."
    return ImportRequest(url, KINDS.get(kind.lower()), title or None)
