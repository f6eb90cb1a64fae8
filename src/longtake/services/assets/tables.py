"""The table of assets and its row type.

A row holds the storage key of our copy and, for results, the provider's URL, but never a URL of our own: `AssetLinks`
makes those for each response.
"""

from dataclasses import dataclass, field, fields
from datetime import datetime
from typing import Any, Literal

from sqlalchemy import BigInteger, Boolean, Column, Double, Integer, Row, SmallInteger, Table, Text

from longtake.clock import new_id
from longtake.db.dialects import Identifier, Instant, Json
from longtake.engine.tables import metadata

assets = Table(
    "assets",
    metadata,
    Column("id", Identifier, primary_key=True),
    Column("user_id", Text, nullable=False),
    Column("task_id", Identifier),
    Column("role", Text, nullable=False),
    Column("kind", Text, nullable=False),
    Column("position", SmallInteger, nullable=False),
    Column("source_url", Text),
    Column("source_expires_at", Instant),
    Column("mirror_state", Text, nullable=False),
    Column("mirror_attempts", Integer, nullable=False),
    Column("mirror_error", Text),
    Column("mirror_tried_at", Instant),
    Column("mirrored_at", Instant),
    Column("key", Text),
    Column("content_type", Text),
    Column("size", BigInteger),
    Column("checksum", Text),
    Column("width", Integer),
    Column("height", Integer),
    Column("duration_seconds", Double),
    Column("created_at", Instant, nullable=False),
    Column("status", Text, nullable=False),
    Column("completed_at", Instant),
    Column("force", Boolean, nullable=False),
    Column("request_id", Text),
    Column("title", Text),
    Column("file_number", Integer, nullable=False),
    Column("bytes_done", BigInteger),
    Column("thumbnail_state", Text, nullable=False),
    Column("thumbnail_attempts", Integer, nullable=False),
    Column("thumbnail_error", Text),
    Column("thumbnail_tried_at", Instant),
    Column("thumbnail_at", Instant),
    Column("thumbnail_key", Text),
    Column("thumbnail_url", Text),
    Column("thumbnail_metadata", Json),
    Column("placeholder", Text),
    Column("preview_state", Text, nullable=False),
    Column("preview_error", Text),
    Column("preview_key", Text),
)

#: How long a provider's URL is assumed to work when the provider does not say.
SOURCE_SECONDS = 600.0


@dataclass(frozen=True, slots=True)
class Asset:
    """One row of assets. It has a key once we have a copy of the file."""

    id: str
    user_id: str
    task_id: str | None
    role: str
    kind: str
    position: int
    source_url: str | None
    source_expires_at: datetime | None
    mirror_state: str
    mirror_attempts: int
    mirror_error: str | None
    mirrored_at: datetime | None
    key: str | None
    content_type: str | None
    size: int | None
    checksum: str | None
    width: int | None
    height: int | None
    duration_seconds: float | None
    created_at: datetime
    status: str
    completed_at: datetime | None
    request_id: str | None
    title: str | None
    file_number: int
    bytes_done: int | None
    thumbnail_state: str
    thumbnail_attempts: int
    thumbnail_error: str | None
    thumbnail_tried_at: datetime | None
    thumbnail_at: datetime | None
    thumbnail_key: str | None
    thumbnail_url: str | None
    thumbnail_metadata: dict[str, Any] | None
    placeholder: str | None
    preview_state: str
    preview_error: str | None
    preview_key: str | None

    @property
    def has_picture(self) -> bool:
        """Return whether we made a thumbnail, in the storage or still waiting to be stored."""
        return self.thumbnail_state == "completed"


@dataclass(frozen=True, slots=True)
class NewAsset:
    """A new asset: with a source URL to copy from, or with a key when its object is stored already.

    The id may be made beforehand, for an object that is stored before the row is written.
    """

    user_id: str
    kind: Literal["image", "video"]
    role: Literal["result", "reference", "import", "scene"] = "result"
    task_id: str | None = None
    position: int = 0
    source_url: str | None = None
    source_expires_in: float | None = SOURCE_SECONDS
    key: str | None = None
    content_type: str | None = None
    size: int | None = None
    checksum: str | None = None
    width: int | None = None
    height: int | None = None
    duration_seconds: float | None = None
    title: str | None = None
    id: str = field(default_factory=new_id)


_NAMES = [one.name for one in fields(Asset)]


def asset_from(row: Row[Any]) -> Asset:
    """Return the asset of a row that has all its columns."""
    values = row._mapping  # noqa: SLF001 - SQLAlchemy's public name for it
    return Asset(**{name: values[name] for name in _NAMES})
