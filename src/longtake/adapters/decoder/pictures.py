"""Decoding in the child: still pictures, and the limits and encoders that videos share."""

from __future__ import annotations

import importlib
import io
import pkgutil
from typing import IO, Any, cast

import av
from PIL import Image, ImageOps, UnidentifiedImageError

from longtake.adapters.decoder.block_reader import RemoteFile
from longtake.adapters.decoder.protocol import MOST_PIXELS, MOST_SIDE, PLACEHOLDER_SIZE

Image.MAX_IMAGE_PIXELS = MOST_PIXELS

#: The only format that Pillow may try for each type.
PICTURES = {"image/png": "PNG", "image/jpeg": "JPEG", "image/webp": "WEBP", "image/gif": "GIF"}
BACKGROUND = (255, 255, 255)
#: How many times the size of the result a JPEG must at least have when it is decoded at a reduced scale.
SPARE = {"still": 2, "small": 1}
#: A small copy may exceed the requested size by this factor. Many do after decoding at a reduced scale; scaling them by
#: that little would take a third of all the time, and blur them.
NEARLY = 1.25

Decoded = tuple[dict[str, Any], bytes, bytes]
BinaryFile = RemoteFile | io.BytesIO


class MediaRejected(Exception):
    """The file cannot or must not be decoded; `reason` says which."""

    def __init__(self, reason: str, sentence: str) -> None:
        super().__init__(sentence)
        self.reason = reason


def decode(request: dict[str, Any], file: BinaryFile) -> Decoded:
    """Carry out a request; return facts about the file, the picture and the placeholder."""
    if request["content_type"] in PICTURES:
        return _of_picture(request, file)
    from longtake.adapters.decoder.videos import of_video  # noqa: PLC0415 - it builds on this module

    return of_video(request, file)


def load_decoders() -> None:
    """Load everything that a request can need, lazy imports of libraries included: later no file can be opened."""
    from longtake.adapters.decoder import videos  # noqa: F401, PLC0415 - as above

    Image.init()
    for module in pkgutil.walk_packages(av.__path__, "av."):
        if not module.name.endswith("__main__"):
            importlib.import_module(module.name)


def _of_picture(request: dict[str, Any], file: BinaryFile) -> Decoded:
    try:
        picture = _open(request, file)
        check_size(*picture.size)
        if picture.format == "PNG":
            # The decoder accepts a stream that ends in zeros; the checksums do not.
            picture.verify()
            file.seek(0)
            picture = _open(request, file)
        facts = {"width": picture.width, "height": picture.height, "duration_seconds": None}
        if request["what"] in SPARE:
            # A JPEG that is far too large is decoded at a reduced scale. Other formats ignore this.
            spare = SPARE[request["what"]]
            picture.draft("RGB", (request["width"] * spare, request["height"] * spare))
        picture.load()
    except Image.DecompressionBombError:
        raise too_large() from None
    except (UnidentifiedImageError, SyntaxError, ValueError, OSError, EOFError):
        raise broken() from None
    if request["what"] == "check":
        return facts, b"", b""
    before = picture.size
    ImageOps.exif_transpose(picture, in_place=True)
    if picture.size != before:
        facts |= {"width": facts["height"], "height": facts["width"]}
    if request["what"] == "small":
        return facts, _fitting_webp(_flat(picture), request), b""
    still = cover(_flat(picture), request["width"], request["height"])
    return facts, to_jpeg(still, request["quality"]), placeholder_of(still)


def _open(request: dict[str, Any], file: BinaryFile) -> Image.Image:
    return Image.open(cast("IO[bytes]", file), formats=[PICTURES[request["content_type"]]])


def check_size(width: int, height: int) -> None:
    """Reject a picture that would fill memory once decoded."""
    if not (0 < width <= MOST_SIDE and 0 < height <= MOST_SIDE and width * height <= MOST_PIXELS):
        raise too_large(width, height)


def too_large(width: int | None = None, height: int | None = None) -> MediaRejected:
    """Return the error for a picture that is too large."""
    what = "The picture" if width is None else f"The picture is {width}×{height}; it"
    return MediaRejected("too large", f"{what} has more than {MOST_PIXELS:,} pixels or {MOST_SIDE:,} on a side.")


def broken() -> MediaRejected:
    """Return the error for a damaged file."""
    return MediaRejected("broken", "The file is damaged, or not whole.")


def cover(picture: Image.Image, width: int, height: int) -> Image.Image:
    """Return the middle of the picture, scaled to fill the size exactly."""
    return ImageOps.fit(picture, (width, height), Image.Resampling.BICUBIC)


def to_jpeg(picture: Image.Image, quality: int) -> bytes:
    """Return the picture as JPEG, without anything but pixels."""
    out = io.BytesIO()
    picture.save(out, "JPEG", quality=quality)
    return out.getvalue()


def _fitting_webp(picture: Image.Image, request: dict[str, Any]) -> bytes:
    if picture.width > request["width"] * NEARLY or picture.height > request["height"] * NEARLY:
        picture.thumbnail((request["width"], request["height"]), Image.Resampling.BICUBIC)
    out = io.BytesIO()
    # Lists show many of these: a little larger, but made in half the time.
    picture.save(out, "WEBP", quality=request["quality"], method=2)
    return out.getvalue()


def placeholder_of(picture: Image.Image) -> bytes:
    """Return a picture of under a hundred bytes, which a page shows blurred until the real one is loaded."""
    small = picture.resize(PLACEHOLDER_SIZE, Image.Resampling.BOX)
    out = io.BytesIO()
    small.save(out, "WEBP", quality=10, method=6)
    return out.getvalue()


def _flat(picture: Image.Image) -> Image.Image:
    if picture.mode in {"RGBA", "LA", "PA"} or "transparency" in picture.info:
        solid = picture.convert("RGBA")
        ground = Image.new("RGBA", solid.size, (*BACKGROUND, 255))
        return Image.alpha_composite(ground, solid).convert("RGB")
    return picture if picture.mode == "RGB" else picture.convert("RGB")
