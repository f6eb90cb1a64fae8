"""What a file is, by its first bytes alone."""

from __future__ import annotations

from io import BytesIO
from typing import Any

import av
import pytest
from PIL import Image

from longtake.adapters.storage.keys import FIRST_BYTES, media_type, type_of_key


@pytest.mark.parametrize(
    ("form", "content_type"),
    [("PNG", "image/png"), ("JPEG", "image/jpeg"), ("WEBP", "image/webp"), ("GIF", "image/gif")],
)
def test_pictures_are_known_by_how_they_begin(form: str, content_type: str) -> None:
    file = BytesIO()
    Image.new("RGB", (64, 64)).save(file, form)
    found = media_type(file.getvalue()[:FIRST_BYTES])
    assert found is not None
    assert (found.content_type, found.kind) == (content_type, "image")
    assert type_of_key(f"results/a/b.{found.extension}") == content_type


@pytest.mark.parametrize(
    ("form", "codec", "content_type"),
    [
        ("mp4", "libx264", "video/mp4"),
        ("mov", "libx264", "video/quicktime"),
        ("webm", "libvpx", "video/webm"),
        ("matroska", "libx264", None),
        ("avi", "mpeg4", None),
        ("mpegts", "libx264", None),
    ],
)
def test_videos_are_known_by_how_they_begin(form: str, codec: str, content_type: str | None) -> None:
    file = BytesIO()
    with av.open(file, "w", format=form) as container:
        stream: Any = container.add_stream(codec, rate=10)
        stream.width, stream.height, stream.pix_fmt = 64, 64, "yuv420p"
        container.mux(stream.encode(av.VideoFrame(64, 64, "yuv420p")))
        container.mux(stream.encode(None))
    found = media_type(file.getvalue()[:FIRST_BYTES])
    assert (found.content_type if found else None) == content_type
    if found:
        assert (found.kind, type_of_key(f"x.{found.extension}")) == ("video", content_type)


@pytest.mark.parametrize(
    "first",
    [
        b"", b"\x89PNG", b"<svg", b"<?xml version='1.0'?><svg/>", b"<!DOCTYPE html>", b"#EXTM3U", b"%PDF-1.7", b"PK",
        b"RIFF\0\0\0\0WAVE", b"\0\0\0\x20ftypavif", b"\0\0\0\x20ftypheic", b"\x7fELF", b"GIF90a", b" \x89PNG\r\n\x1a\n",
        b"\x1a\x45\xdf\xa3" + b"\0" * 200 + b"\x42\x82\x84webm",
    ],
)  # fmt: skip
def test_other_formats_are_unknown(first: bytes) -> None:
    """A15: files in other formats."""
    assert media_type(first) is None


def test_a_key_with_an_ending_of_its_own_is_only_ever_downloaded() -> None:
    assert type_of_key("a/b.html") == type_of_key("a/b") == "application/octet-stream"
