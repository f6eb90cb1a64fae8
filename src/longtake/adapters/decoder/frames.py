"""Decoding, in the child: fixed formats, no protocol at all, caps on pixels, frames and seconds."""

from __future__ import annotations

import importlib
import io
import pkgutil
from typing import IO, Any, cast

import av
from PIL import Image, ImageOps, UnidentifiedImageError

from longtake.adapters.decoder.block_reader import RemoteFile
from longtake.adapters.decoder.request import MOST_PIXELS, MOST_SIDE, PLACEHOLDER_SIZE

Image.MAX_IMAGE_PIXELS = MOST_PIXELS

#: What Pillow may try for each type: never anything else, whatever a file pretends to be.
PICTURES = {"image/png": "PNG", "image/jpeg": "JPEG", "image/webp": "WEBP", "image/gif": "GIF"}
BACKGROUND = (255, 255, 255)
#: How many times as large as what is made of it a picture is unpacked at least; lists of small ones need no more.
SPARE = {"still": 2, "small": 1}
#: A small copy may be so many times as large as was wished. Many are, once unpacked at a fraction of their own size:
#: to scale them by that little would take a third of all the time, and blur them.
NEARLY = 1.25

Answer = tuple[dict[str, Any], bytes, bytes]
BinaryFile = RemoteFile | io.BytesIO


class Refused(Exception):
    """The file cannot or may not be decoded; `reason` says which."""

    def __init__(self, reason: str, sentence: str) -> None:
        super().__init__(sentence)
        self.reason = reason


def fulfil(wish: dict[str, Any], file: BinaryFile) -> Answer:
    """Make what was wished for; returns facts about the file, the picture and the placeholder."""
    if wish["content_type"] in PICTURES:
        return _of_picture(wish, file)
    from longtake.adapters.decoder.videos import of_video  # noqa: PLC0415 - it builds on this module

    return of_video(wish, file)


def load_decoders() -> None:
    """Load all that any wish can need, also what libraries leave for later: then no file can be opened any more."""
    from longtake.adapters.decoder import videos  # noqa: F401, PLC0415 - as above

    Image.init()
    for module in pkgutil.walk_packages(av.__path__, "av."):
        if not module.name.endswith("__main__"):
            importlib.import_module(module.name)


def _of_picture(wish: dict[str, Any], file: BinaryFile) -> Answer:
    try:
        picture = _open(wish, file)
        check_size(*picture.size)
        if picture.format == "PNG":
            # Its decoder is content with a stream that breaks off in zeros; the checksums are not.
            picture.verify()
            file.seek(0)
            picture = _open(wish, file)
        facts = {"width": picture.width, "height": picture.height, "duration_seconds": None}
        if wish["what"] in SPARE:
            # A JPEG that is far too large is unpacked at a fraction of its size; others ignore this.
            picture.draft("RGB", (wish["width"] * SPARE[wish["what"]], wish["height"] * SPARE[wish["what"]]))
        picture.load()
    except Image.DecompressionBombError:
        raise too_large() from None
    except (UnidentifiedImageError, SyntaxError, ValueError, OSError, EOFError):
        raise broken() from None
    if wish["what"] == "check":
        return facts, b"", b""
    before = picture.size
    ImageOps.exif_transpose(picture, in_place=True)
    if picture.size != before:
        facts |= {"width": facts["height"], "height": facts["width"]}
    if wish["what"] == "small":
        return facts, _fitting_webp(_flat(picture), wish), b""
    still = cover(_flat(picture), wish["width"], wish["height"])
    return facts, to_jpeg(still, wish["quality"]), placeholder_of(still)


def _open(wish: dict[str, Any], file: BinaryFile) -> Image.Image:
    return Image.open(cast("IO[bytes]", file), formats=[PICTURES[wish["content_type"]]])


def check_size(width: int, height: int) -> None:
    """Refuse what would fill memory once unpacked."""
    if not (0 < width <= MOST_SIDE and 0 < height <= MOST_SIDE and width * height <= MOST_PIXELS):
        raise too_large(width, height)


def too_large(width: int | None = None, height: int | None = None) -> Refused:
    """Say that nothing of this size is decoded."""
    what = "The picture" if width is None else f"The picture is {width}×{height}; it"
    return Refused("too large", f"{what} has more than {MOST_PIXELS:,} pixels or {MOST_SIDE:,} on a side.")


def broken() -> Refused:
    """Say that the file is not what it should be."""
    return Refused("broken", "The file is damaged, or not whole.")


def cover(picture: Image.Image, width: int, height: int) -> Image.Image:
    """Return the middle of the picture, scaled to fill the size exactly."""
    return ImageOps.fit(picture, (width, height), Image.Resampling.BICUBIC)


def to_jpeg(picture: Image.Image, quality: int) -> bytes:
    """Return the picture as JPEG, without anything but pixels."""
    out = io.BytesIO()
    picture.save(out, "JPEG", quality=quality)
    return out.getvalue()


def _fitting_webp(picture: Image.Image, wish: dict[str, Any]) -> bytes:
    if picture.width > wish["width"] * NEARLY or picture.height > wish["height"] * NEARLY:
        picture.thumbnail((wish["width"], wish["height"]), Image.Resampling.BICUBIC)
    out = io.BytesIO()
    # Lists have many of them: a little larger, made in half the time.
    picture.save(out, "WEBP", quality=wish["quality"], method=2)
    return out.getvalue()


def placeholder_of(picture: Image.Image) -> bytes:
    """Return a picture of under a hundred bytes: a page shows it blurred until the real one is there."""
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
