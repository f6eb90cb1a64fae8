"""Files that users bring: imports by address, one by one or as a CSV, and reference images, whose bytes they send.

The row of an import starts the jobs that copy it. For one user the same address is the same asset: a repeated
request, a file imported twice and two requests at once all get the existing asset.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal
from urllib.parse import urlsplit

from sqlalchemy import ColumnElement, func, literal_column, select

from longtake.adapters.decoder.errors import MediaRefused
from longtake.adapters.storage.keys import reference_key
from longtake.adapters.storage.media_type import FIRST_BYTES, JPEG, PNG, WEBP, MediaType, media_type
from longtake.capabilities.media.errors import TooManyImports
from longtake.clock import new_id
from longtake.db.dialects import POSTGRESQL
from longtake.engine.events import append_events
from longtake.errors import LongtakeError
from longtake.import_rows import BadRow, Columns, read_csv
from longtake.services.assets import Asset, NewAsset, assets, find_assets, register_asset, register_assets
from longtake.services.assets.store import stored_data
from longtake.validation import check_plain_text

if TYPE_CHECKING:
    from longtake.adapters.net import HttpClient
    from longtake.adapters.storage import Storage
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
        message = f"This user has {self._most:,} unfinished imports; wait until some have ended."
        return ImportResult(refused=TooManyImports(message, limit=self._most))


def likely_kind(url: str) -> Kind:
    """Return the kind that the ending of the path suggests: video, unless it is an image's."""
    return "image" if urlsplit(url).path.lower().endswith(IMAGE_ENDINGS) else "video"


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


# -- reference images ------------------------------------------------------------------------------------------------

LEAST_SIDE = 64
MOST_SIDE = 8192
MOST_PIXELS = 50_000_000

_BROKEN = "The file is damaged, or not whole."
#: Markers of JPEG that begin a frame and hold its size; C4, C8 and CC are tables.
_FRAMES = frozenset(range(0xC0, 0xD0)) - {0xC4, 0xC8, 0xCC}
_WITHOUT_LENGTH = frozenset((0x01, *range(0xD0, 0xD8)))
_START_OF_SCAN = 0xDA


def image_size(body: bytes, media: MediaType) -> tuple[int, int]:
    """Return width and height. Raises MediaRefused if the image is incomplete, too small or too large."""
    try:
        width, height = _READERS[media](body)
    except (struct.error, IndexError, KeyError):
        raise MediaRefused(_BROKEN, hint="") from None
    if min(width, height) < LEAST_SIDE or max(width, height) > MOST_SIDE or width * height > MOST_PIXELS:
        raise MediaRefused(
            f"The image is {width}×{height}; each side must be {LEAST_SIDE} to {MOST_SIDE} pixels,"
            f" and the whole at most {MOST_PIXELS:,} pixels.",
            hint="",
            width=width,
            height=height,
        )
    return width, height


def _png_size(body: bytes) -> tuple[int, int]:
    length, name, width, height = struct.unpack_from(">I4sII", body, 8)
    if name != b"IHDR" or length != 13 or b"IEND" not in body[-64:]:  # noqa: PLR2004 - as the format has it
        raise MediaRefused(_BROKEN, hint="")
    return width, height


def _jpeg_size(body: bytes) -> tuple[int, int]:
    if body.rfind(b"\xff\xd9") < 0:
        raise MediaRefused(_BROKEN, hint="")
    position = 2
    while True:
        if body[position] != 0xFF:  # noqa: PLR2004
            raise MediaRefused(_BROKEN, hint="")
        marker = body[position + 1]
        if marker == 0xFF:  # noqa: PLR2004 - a marker may be preceded by any number of these
            position += 1
        elif marker in _WITHOUT_LENGTH:
            position += 2
        elif marker in _FRAMES:
            height, width = struct.unpack_from(">HH", body, position + 5)
            return width, height
        elif marker == _START_OF_SCAN:
            raise MediaRefused(_BROKEN, hint="")
        else:
            position += 2 + struct.unpack_from(">H", body, position + 2)[0]


def _webp_size(body: bytes) -> tuple[int, int]:
    if struct.unpack_from("<I", body, 4)[0] + 8 > len(body):
        raise MediaRefused(_BROKEN, hint="")
    form = body[12:16]
    if form == b"VP8X":
        return int.from_bytes(body[24:27], "little") + 1, int.from_bytes(body[27:30], "little") + 1
    if form == b"VP8L" and body[20] == 0x2F:  # noqa: PLR2004 - the signature of a lossless picture
        bits = struct.unpack_from("<I", body, 21)[0]
        return (bits & 0x3FFF) + 1, (bits >> 14 & 0x3FFF) + 1
    if form == b"VP8 " and body[23:26] == b"\x9d\x01\x2a":
        width, height = struct.unpack_from("<HH", body, 26)
        return width & 0x3FFF, height & 0x3FFF
    raise MediaRefused(_BROKEN, hint="")


_READERS = {PNG: _png_size, JPEG: _jpeg_size, WEBP: _webp_size}

TAKEN = {one.content_type: one for one in (PNG, JPEG, WEBP)}
HINT = "Send the bytes of the file as the body, with Content-Type image/png, image/jpeg or image/webp."


async def add_reference(
    database: Database, storage: Storage, user_id: str, body: bytes, content_type: str, request_id: str | None = None
) -> Asset:
    """Store an image, then write its row; return the asset. The same bytes again make another reference."""
    media = check_reference(body, content_type)
    width, height = image_size(body, media)
    asset_id = new_id()
    key = reference_key(asset_id, media.extension)
    stored = await storage.put(key, body, media.content_type, file_name=f"{asset_id}.{media.extension}")
    new = NewAsset(
        id=asset_id,
        user_id=user_id,
        role="reference",
        kind="image",
        key=key,
        content_type=media.content_type,
        size=stored.size,
        checksum=stored.checksum,
        width=width,
        height=height,
    )
    await database.run(register_asset, new, request_id)
    return (await database.read(find_assets, [asset_id], user_id, as_user=user_id))[asset_id]


def check_reference(body: bytes, content_type: str) -> MediaType:
    """Return the media type of the bytes. Raises MediaRefused unless it is the claimed one."""
    claimed = TAKEN.get(content_type.partition(";")[0].strip().lower())
    found = media_type(body[:FIRST_BYTES])
    if claimed is None or found != claimed:
        what = f"of type {found.content_type}" if found else "no image of a supported type"
        raise MediaRefused(f"The body is {what}; its Content-Type says {content_type[:100]!r}.", hint=HINT)
    return claimed
