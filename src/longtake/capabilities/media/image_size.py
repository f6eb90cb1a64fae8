"""Reads the size of an image from its header, without a decoder: the bytes are untrusted.

Also refuses a file that ends too early to be whole. It does not check that every pixel can be decoded.
"""

from __future__ import annotations

import struct

from longtake.adapters.storage.media_type import JPEG, PNG, WEBP, MediaType
from longtake.errors import MediaRefused

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
