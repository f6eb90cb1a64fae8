"""The protocol of parent and child: what a decoder can do, how messages are framed, how the child reads the file.

A message is a JSON header and a body of bytes, each with its length in front.
"""

from __future__ import annotations

import io
import struct
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, BinaryIO, Literal

import orjson

LENGTHS = struct.Struct(">II")
#: The longest header and body. A body is a small file, a block, a picture or an animation.
MOST_HEADER = 65_536
MOST_BODY = 64 * 1024 * 1024
#: What the child reads of a file at a time, at most.
BLOCK = 128 * 1024
#: How many blocks are cached: demuxers seek back and forth, and pictures are read twice.
KEPT = 256
#: Larger pictures are not decoded.
MOST_PIXELS = 50_000_000
MOST_SIDE = 32_768
PLACEHOLDER_SIZE = (24, 14)


def pack(header: dict[str, Any], body: bytes = b"") -> bytes:
    """Return the message as bytes for the pipe."""
    head = orjson.dumps(header)
    return LENGTHS.pack(len(head), len(body)) + head + body


def unpack_lengths(prefix: bytes) -> tuple[int, int]:
    """Return the lengths of header and body; raise ValueError if they exceed the limits.

    So a decoder that was taken over cannot fill its parent's memory.
    """
    head, body = LENGTHS.unpack(prefix)
    if head > MOST_HEADER or body > MOST_BODY:
        raise ValueError(f"A message of {head} and {body} bytes is too long.")
    return head, body


def receive(pipe: BinaryIO) -> tuple[dict[str, Any], bytes] | None:
    """Read one message in the child; None if the parent is gone."""
    prefix = pipe.read(LENGTHS.size)
    if len(prefix) < LENGTHS.size:
        return None
    head, body = unpack_lengths(prefix)
    return orjson.loads(pipe.read(head)), pipe.read(body)


@dataclass(frozen=True, slots=True)
class DecodeRequest:
    """What to make of a file.

    `still`: a JPEG of one frame that fills width and height, and a placeholder of a few bytes. `preview`: a short
    animated WebP. `check`: nothing, but every pixel of a picture, or one frame of a video, has been decoded. `small`,
    for pictures only: the same check, and a WebP of the whole picture that is at most a quarter larger than width and
    height.
    """

    what: Literal["still", "preview", "check", "small"]
    #: The type found in its first bytes. A decoder never guesses.
    content_type: str
    width: int = 960
    height: int = 540
    quality: int = 95
    #: The position of the frame in a video, in seconds.
    at: float = 0.1
    frames: int = 12

    def as_dict(self) -> dict[str, Any]:
        """Return the fields for the header. Unlike `asdict` this copies nothing."""
        return {name: getattr(self, name) for name in self.__slots__}


@dataclass(frozen=True, slots=True)
class DecodeResult:
    """The picture made. Width, height and duration are those of the file itself."""

    width: int
    height: int
    duration_seconds: float | None
    picture: bytes
    placeholder: bytes
    bytes_read: int


class BlockReader(io.RawIOBase):
    """An open file for PyAV and Pillow whose blocks are fetched on demand: of a long video they need only a few."""

    def __init__(self, fetch: Callable[[int, int], bytes], size: int) -> None:
        super().__init__()
        self._fetch = fetch
        self._size = size
        self._position = 0
        self._blocks: OrderedDict[int, bytes] = OrderedDict()

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._position

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        start = {io.SEEK_SET: 0, io.SEEK_CUR: self._position, io.SEEK_END: self._size}[whence]
        self._position = max(0, start + offset)
        return self._position

    def read(self, size: int = -1) -> bytes:
        end = self._size if size is None or size < 0 else min(self._position + size, self._size)
        parts = []
        while self._position < end:
            number, within = divmod(self._position, BLOCK)
            part = self._block(number)[within : within + end - self._position]
            if not part:
                break
            parts.append(part)
            self._position += len(part)
        return b"".join(parts)

    def readall(self) -> bytes:
        return self.read()

    def _block(self, number: int) -> bytes:
        known = self._blocks.get(number)
        if known is None:
            offset = number * BLOCK
            known = self._blocks[number] = self._fetch(offset, min(BLOCK, self._size - offset))
            if len(self._blocks) > KEPT:
                self._blocks.popitem(last=False)
        else:
            self._blocks.move_to_end(number)
        return known
