"""A remote file, read in blocks, because a decoder needs only a small part of a long video."""

from __future__ import annotations

import io
from collections import OrderedDict
from typing import Protocol

BLOCK = 128 * 1024
#: How many blocks are cached: demuxers seek back and forth, and pictures are read twice.
KEPT = 256


class Fetch(Protocol):
    """Fetches a range of the file."""

    def fetch(self, offset: int, length: int) -> bytes: ...


class RemoteFile(io.RawIOBase):
    """Gives PyAV and Pillow an open file whose bytes are fetched on demand."""

    def __init__(self, pipe: Fetch, size: int) -> None:
        super().__init__()
        self._pipe = pipe
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
            known = self._blocks[number] = self._pipe.fetch(offset, min(BLOCK, self._size - offset))
            if len(self._blocks) > KEPT:
                self._blocks.popitem(last=False)
        else:
            self._blocks.move_to_end(number)
        return known
