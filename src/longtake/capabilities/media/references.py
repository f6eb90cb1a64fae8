"""Reference images, which users upload for edits and for videos that begin with a picture."""

from __future__ import annotations

from typing import TYPE_CHECKING

from longtake.adapters.storage.keys import reference_key
from longtake.adapters.storage.media_type import FIRST_BYTES, JPEG, PNG, WEBP, MediaType, media_type
from longtake.capabilities.media.image_size import image_size
from longtake.clock import new_id
from longtake.errors import MediaRefused
from longtake.services.assets import Asset, NewAsset, find_assets, register_asset

if TYPE_CHECKING:
    from longtake.adapters.storage import Storage
    from longtake.db import Database

TAKEN = {one.content_type: one for one in (PNG, JPEG, WEBP)}
HINT = "Send the bytes of the file as the body, with Content-Type image/png, image/jpeg or image/webp."


class References:
    """Stores reference images: checks the image, stores the object, then writes the row."""

    def __init__(self, database: Database, storage: Storage) -> None:
        self._database = database
        self._storage = storage

    async def add(self, user_id: str, body: bytes, content_type: str, request_id: str | None = None) -> Asset:
        """Store an image and return its asset. The same bytes again make another reference."""
        media = check_reference(body, content_type)
        width, height = image_size(body, media)
        asset_id = new_id()
        key = reference_key(asset_id, media.extension)
        stored = await self._storage.put(key, body, media.content_type, file_name=f"{asset_id}.{media.extension}")
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
        await self._database.run(register_asset, new, request_id)
        return (await self._database.read(find_assets, [asset_id], user_id, as_user=user_id))[asset_id]


def check_reference(body: bytes, content_type: str) -> MediaType:
    """Return the media type of the bytes. Raises MediaRefused unless it is the claimed one."""
    claimed = TAKEN.get(content_type.partition(";")[0].strip().lower())
    found = media_type(body[:FIRST_BYTES])
    if claimed is None or found != claimed:
        what = f"of type {found.content_type}" if found else "no image of a supported type"
        raise MediaRefused(f"The body is {what}; its Content-Type says {content_type[:100]!r}.", hint=HINT)
    return claimed
