"""The size of pictures by their headers, as an independent decoder sees it; what is broken or too large is refused."""

from __future__ import annotations

import struct
import zlib
from io import BytesIO
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as some
from PIL import Image

from longtake.adapters.decoder.errors import MediaRefused
from longtake.adapters.storage.keys import JPEG, MEDIA_TYPES, PNG, WEBP, MediaType
from longtake.capabilities.media.thumbnail_maker import image_size

FORMS: list[tuple[MediaType, dict[str, Any]]] = [
    (PNG, {"format": "PNG"}),
    (JPEG, {"format": "JPEG"}),
    (JPEG, {"format": "JPEG", "progressive": True, "exif": b"Exif\0\0" + b"x" * 300, "comment": "a\xff\xd8b"}),
    (WEBP, {"format": "WEBP"}),
    (WEBP, {"format": "WEBP", "lossless": True}),
    (WEBP, {"format": "WEBP", "exif": b"Exif\0\0" + b"x" * 300}),
]


def picture(size: tuple[int, int], options: dict[str, Any]) -> bytes:
    file = BytesIO()
    Image.new("RGB", size, "navy").save(file, **options)
    return file.getvalue()


@pytest.mark.parametrize(("media", "options"), FORMS)
@given(width=some.integers(64, 300), height=some.integers(64, 300))
@settings(max_examples=8)
def test_the_size_is_the_one_a_decoder_sees(media: MediaType, options: dict[str, Any], width: int, height: int) -> None:
    assert image_size(picture((width, height), options), media) == (width, height)


def test_a_picture_with_transparency_and_one_that_moves_have_a_size_too() -> None:
    file = BytesIO()
    frames = [Image.new("RGBA", (70, 90), colour) for colour in ("red", "blue")]
    frames[0].save(file, "WEBP", save_all=True, append_images=frames[1:])
    assert image_size(file.getvalue(), WEBP) == (70, 90)


@pytest.mark.parametrize(("media", "options"), FORMS)
def test_a_picture_that_is_not_whole_is_refused(media: MediaType, options: dict[str, Any]) -> None:
    whole = picture((200, 300), options)
    for length in {*range(20), len(whole) // 2, len(whole) - 13}:
        with pytest.raises(MediaRefused):
            image_size(whole[:length], media)


@pytest.mark.parametrize("media", [PNG, JPEG, WEBP])
@given(body=some.binary(max_size=200))
@settings(max_examples=200)
def test_nonsense_is_refused_and_nothing_else_happens(media: MediaType, body: bytes) -> None:
    with pytest.raises(MediaRefused):
        image_size(body, media)


def png_of(size: tuple[int, int]) -> bytes:
    """Return a picture that is all header."""
    header = struct.pack(">IIBBBBB", *size, 8, 2, 0, 0, 0)
    chunk = struct.pack(">I", 13) + b"IHDR" + header + struct.pack(">I", zlib.crc32(b"IHDR" + header))
    return b"\x89PNG\r\n\x1a\n" + chunk + b"\0\0\0\0IEND\xaeB`\x82"


@pytest.mark.parametrize("size", [(63, 64), (64, 63), (8193, 64), (64, 8193), (8000, 8000), (50_000, 50_000), (0, 64)])
def test_sides_and_pixels_are_limited(size: tuple[int, int]) -> None:
    """A14: limits of pixels, frames and duration."""
    with pytest.raises(MediaRefused, match=f"{size[0]}×{size[1]}"):
        image_size(png_of(size), PNG)


@pytest.mark.parametrize("size", [(64, 64), (8192, 64), (64, 8192), (8192, 6100)])
def test_pictures_within_the_bounds_are_taken(size: tuple[int, int]) -> None:
    assert image_size(png_of(size), PNG) == size


def test_only_kinds_with_a_reader_are_ever_asked_for() -> None:
    with pytest.raises(MediaRefused):
        image_size(b"GIF89a", MEDIA_TYPES["image/gif"])
