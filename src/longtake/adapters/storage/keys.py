"""Keys of objects, and the types of media that their endings stand for.

Longtake makes the keys, never a caller or a provider; they are checked all the same. The type of a file is detected by
its first bytes: what a server says about them is only a claim. Formats that can carry a program or point elsewhere
(HTML, SVG, PDF, playlists) are unknown here, and so refused.
"""

import re
from dataclasses import dataclass
from typing import Literal

from longtake.adapters.storage.errors import ObjectKeyInvalid

MediaKind = Literal["image", "video"]
#: The number of bytes that are enough to detect the type.
FIRST_BYTES = 64
LONGEST_KEY = 500
#: The folders of objects that rows name.
FOLDERS = ("results", "references", "thumbnails", "previews")
_PICTURE = re.compile(
    r"(?:thumbnails|previews)/([0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12})"
    r"-v[0-9]+(?:-([0-9]{1,9}))?\.[a-z]+"
)
#: Letters, digits, dot, hyphen and underscore, and no part that begins with a dot: so no `..`, no `%2e`, no NUL,
#: no empty part, nothing absolute, nothing hidden.
_KEY = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]*(?:/[A-Za-z0-9_-][A-Za-z0-9._-]*)*")


def check_key(key: str) -> str:
    """Return the key unchanged, or raise ObjectKeyInvalid. A key that fails here is a bug, or an attack."""
    if len(key) > LONGEST_KEY or not _KEY.fullmatch(key):
        raise ObjectKeyInvalid("This is not a valid object key.", hint="Longtake itself makes all keys.")
    return key


def result_key(asset_id: str, token: str, extension: str) -> str:
    """Return the key of a result.

    It contains the token of the run that writes it: two runs of one job never write the same object, and the row names
    the one that counts.
    """
    return check_key(f"results/{asset_id}/{token}.{extension}")


def result_folder(asset_id: str) -> str:
    """Return the folder of an asset's results, including those of runs that failed."""
    return check_key(f"results/{asset_id}")


def reference_key(asset_id: str, extension: str) -> str:
    """Return the key of a reference image."""
    return check_key(f"references/{asset_id}.{extension}")


def thumbnail_key(asset_id: str, file_number: int = 1) -> str:
    """Return the key of a thumbnail. Two runs make the same picture, so the key needs no token.

    A file that replaces the first has a thumbnail, and a key, of its own.
    """
    return check_key(f"thumbnails/{asset_id}-v2{_later(file_number)}.jpg")


def preview_key(asset_id: str, file_number: int = 1) -> str:
    """Return the key of a moving preview."""
    return check_key(f"previews/{asset_id}-v1{_later(file_number)}.webp")


def poster_key(file: str) -> str:
    """Return the key of a poster or its small copy. The file name identifies the picture and its version."""
    return check_key(f"posters/{file}")


def picture_of(key: str) -> tuple[str, int] | None:
    """Return the asset id and file number of a thumbnail or preview; None for every other key."""
    found = _PICTURE.fullmatch(key)
    return (found[1], int(found[2] or 1)) if found else None


def _later(file_number: int) -> str:
    return "" if file_number == 1 else f"-{file_number}"


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
