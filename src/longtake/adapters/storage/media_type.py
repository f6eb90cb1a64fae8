"""Detects the type of media by its first bytes. What a server says about them is only a claim.

Formats that can carry a program or point elsewhere (HTML, SVG, PDF, playlists) are unknown here, and so refused.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

MediaKind = Literal["image", "video"]
#: The number of bytes that are enough to detect the type.
FIRST_BYTES = 64


@dataclass(frozen=True, slots=True)
class MediaType:
    """A type of file that we keep: the content type it is served with, and the ending of its key."""

    content_type: str
    extension: str
    kind: MediaKind


PNG = MediaType("image/png", "png", "image")
JPEG = MediaType("image/jpeg", "jpg", "image")
WEBP = MediaType("image/webp", "webp", "image")
GIF = MediaType("image/gif", "gif", "image")
MP4 = MediaType("video/mp4", "mp4", "video")
QUICKTIME = MediaType("video/quicktime", "mov", "video")
WEBM = MediaType("video/webm", "webm", "video")

MEDIA_TYPES = {one.content_type: one for one in (PNG, JPEG, WEBP, GIF, MP4, QUICKTIME, WEBM)}
#: Pictures in the container of MP4 (AVIF, HEIC): no provider of ours sends them, and not all browsers show them.
_PICTURE_BRANDS = frozenset((b"avif", b"avis", b"heic", b"heix", b"heim", b"heis", b"hevc", b"mif1", b"msf1"))


def media_type(first: bytes) -> MediaType | None:
    """Return the type of media that begins with these bytes, or None when we do not keep its type."""
    if first.startswith(b"\x89PNG\r\n\x1a\n"):
        return PNG
    if first.startswith(b"\xff\xd8\xff"):
        return JPEG
    if first.startswith(b"RIFF") and first[8:12] == b"WEBP":
        return WEBP
    if first.startswith((b"GIF87a", b"GIF89a")):
        return GIF
    if first[4:8] == b"ftyp":
        brand = first[8:12]
        return None if brand in _PICTURE_BRANDS else QUICKTIME if brand == b"qt  " else MP4
    if first.startswith(b"\x1a\x45\xdf\xa3") and b"\x42\x82\x84webm" in first[:FIRST_BYTES]:
        return WEBM
    return None


def type_of_key(key: str) -> str:
    """Return the content type of a key's ending. Unknown types are only offered as downloads."""
    extension = key.rpartition(".")[2]
    found = (one.content_type for one in MEDIA_TYPES.values() if one.extension == extension)
    return next(found, "application/octet-stream")
