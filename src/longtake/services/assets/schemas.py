"""The response form of an asset."""

from datetime import datetime
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from longtake.clock import iso_timestamp
from longtake.services.assets.errors import ResultNotCopied, SourceGone
from longtake.services.assets.files import Addresses
from longtake.services.assets.tables import Asset

#: The public name of each state of our copy; the phases in between are `pending` to callers.
SAVE_STATES = {
    "none": "none",
    "pending": "pending",
    "downloading": "pending",
    "uploading": "pending",
    "completed": "success",
    "failed": "failed",
    "expired": "expired",
}
PHASES = ("downloading", "uploading")
#: Errors whose sentences say what the source answered, and never name internals.
ABOUT_THE_SOURCE = {SourceGone.code, ResultNotCopied.code}

_ID = "0199c1f2-7a40-7cc3-98c4-dc0c0c07398f"
_MOMENT = "2026-01-01T12:00:00Z"
ASSET_EXAMPLE: dict[str, Any] = {
    "id": _ID, "task_id": None, "role": "reference", "kind": "image", "title": None, "position": 0,
    "url": f"https://media.example.com/v1/assets/{_ID}/content?expires=1767269100&signature=…",
    "save_state": "success", "save_attempts": 0, "save_error": None, "save_message": None, "save_phase": None,
    "bytes_done": None, "content_type": "image/png", "size": 182734,
    "checksum": "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08", "width": 1024, "height": 1024,
    "duration_seconds": None, "thumbnail_state": "none", "thumbnail_error": None, "thumbnail_message": None,
    "thumbnail_url": None, "placeholder": None, "preview_url": None, "created_at": _MOMENT, "saved_at": _MOMENT,
}  # fmt: skip


class AssetView(BaseModel):
    """A media file that we store or are about to store."""

    model_config = ConfigDict(json_schema_extra={"examples": [ASSET_EXAMPLE]})

    id: str
    task_id: str | None
    role: Literal["result", "reference", "import", "scene"]
    kind: Literal["image", "video"]
    title: str | None
    position: int
    url: str | None = Field(description="A link to the file, valid for minutes. Ask again for a new one.")
    save_state: Literal["none", "pending", "success", "failed", "expired"] = Field(
        description="The state of our own copy; `none`: there is nothing to copy."
    )
    save_attempts: int
    save_error: str | None
    save_message: str | None = Field(description="What the source answered to the last try, if that was the trouble.")
    save_phase: Literal["downloading", "uploading"] | None = Field(
        description="The phase of a running copy, else null."
    )
    bytes_done: int | None = Field(description="How many bytes a running copy has fetched.")
    content_type: str | None
    size: int | None
    checksum: str | None = Field(description="SHA-256, hexadecimal.")
    width: int | None
    height: int | None
    duration_seconds: float | None
    thumbnail_state: Literal["none", "pending", "processing", "completed", "failed"]
    thumbnail_error: str | None
    thumbnail_message: str | None = Field(description="The same for the thumbnail.")
    thumbnail_url: str | None = Field(description="A link to a JPEG of 960×540, valid for minutes.")
    placeholder: str | None = Field(
        description="A tiny image as a data: URL, to show blurred while the thumbnail loads."
    )
    preview_url: str | None = Field(description="A link to a short animated WebP of a video, valid for minutes.")
    created_at: datetime
    saved_at: datetime | None


def show_asset(asset: Asset, addresses: Addresses | None) -> dict[str, Any]:
    """Return an asset as every route shows it, with links made for this response."""
    as_it_is = {name: getattr(asset, name, None) for name in AssetView.model_fields}
    copying = asset.mirror_state in PHASES
    return as_it_is | {
        "url": addresses and addresses.url,
        "save_state": SAVE_STATES[asset.mirror_state],
        "save_attempts": asset.mirror_attempts,
        "save_error": _code(asset.mirror_error),
        "save_message": _message(asset.mirror_error),
        "save_phase": asset.mirror_state if copying else None,
        "bytes_done": asset.bytes_done if copying else None,
        "thumbnail_error": _code(asset.thumbnail_error),
        "thumbnail_message": _message(asset.thumbnail_error),
        "thumbnail_url": addresses and addresses.thumbnail_url,
        "preview_url": addresses and addresses.preview_url,
        "created_at": iso_timestamp(asset.created_at),
        "saved_at": iso_timestamp(asset.mirrored_at),
    }


def _code(error: str | None) -> str | None:
    """Return only the code of an error: its sentence may name internals."""
    return (error or "").partition(":")[0] or None


def _message(error: str | None) -> str | None:
    """Return the sentence of an error that is about the source's answer alone."""
    code, _colon, sentence = (error or "").partition(": ")
    return sentence or None if code in ABOUT_THE_SOURCE else None
