"""An asset as callers see it."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

if TYPE_CHECKING:
    from longtake.asset_registry.assets import Asset

#: The words callers know for where our copy stands; what happens in between is one word to them.
SAVE_STATES = {
    "pending": "pending",
    "downloading": "pending",
    "uploading": "pending",
    "completed": "success",
    "failed": "failed",
    "expired": "expired",
}

_ID = "0199c1f2-7a40-7cc3-98c4-dc0c0c07398f"
_MOMENT = "2026-01-01T12:00:00Z"
ASSET_EXAMPLE: dict[str, Any] = {
    "id": _ID, "task_id": None, "role": "reference", "kind": "image", "position": 0,
    "url": f"https://media.example.com/v1/assets/{_ID}/content?expires=1767269100&signature=…",
    "save_state": "success", "save_attempts": 0, "save_error": None, "content_type": "image/png", "size": 182734,
    "checksum": "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08", "width": 1024, "height": 1024,
    "duration_seconds": None, "created_at": _MOMENT, "saved_at": _MOMENT,
}  # fmt: skip


class AssetView(BaseModel):
    """A media file that we keep, or are about to keep."""

    model_config = ConfigDict(json_schema_extra={"examples": [ASSET_EXAMPLE]})

    id: str
    task_id: str | None
    role: Literal["result", "reference", "import"]
    kind: Literal["image", "video"]
    position: int
    url: str | None = Field(description="Where the file is now; works for minutes. Ask again for a new one.")
    save_state: Literal["pending", "success", "failed", "expired"] = Field(description="Where our own copy stands.")
    save_attempts: int
    save_error: str | None
    content_type: str | None
    size: int | None
    checksum: str | None = Field(description="SHA-256, hexadecimal.")
    width: int | None
    height: int | None
    duration_seconds: float | None
    created_at: datetime
    saved_at: datetime | None


def show_asset(asset: Asset, url: str | None) -> dict[str, Any]:
    """Return the one form in which every route shows an asset; ``url`` is made for this answer."""
    return {
        "id": asset.id,
        "task_id": asset.task_id,
        "role": asset.role,
        "kind": asset.kind,
        "position": asset.position,
        "url": url,
        "save_state": SAVE_STATES[asset.mirror_state],
        "save_attempts": asset.mirror_attempts,
        # Only the code: the sentence may name what is inside of us.
        "save_error": (asset.mirror_error or "").partition(":")[0] or None,
        "content_type": asset.content_type,
        "size": asset.size,
        "checksum": asset.checksum,
        "width": asset.width,
        "height": asset.height,
        "duration_seconds": asset.duration_seconds,
        "created_at": _moment(asset.created_at),
        "saved_at": _moment(asset.mirrored_at),
    }


def _moment(value: datetime | None) -> str | None:
    return None if value is None else value.isoformat().replace("+00:00", "Z")
