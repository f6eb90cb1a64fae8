"""Downloads: a file gets its name only when it is complete."""

from __future__ import annotations

import contextlib
import hashlib
import os
import secrets
from pathlib import Path
from typing import TYPE_CHECKING, Self

from longtake.client.errors import DownloadFailed

if TYPE_CHECKING:
    from longtake.client.shapes import Asset

SUFFIXES = {
    "image/png": ".png", "image/jpeg": ".jpg", "image/webp": ".webp", "image/gif": ".gif",
    "video/mp4": ".mp4", "video/quicktime": ".mov", "video/webm": ".webm",
}  # fmt: skip


class PartFile:
    """A download written beside its target as `….part`. An existing file is never touched."""

    def __init__(self, target: Path) -> None:
        self._target = target
        self._part = target.with_name(f"{target.name}.{secrets.token_hex(4)}.part")

    def __enter__(self) -> Self:
        if self._target.exists():
            raise FileExistsError(f"{self._target} already exists")
        self._target.parent.mkdir(parents=True, exist_ok=True)
        self._file = self._part.open("xb")
        self._size = 0
        self._sum = hashlib.sha256()
        return self

    def __exit__(self, *_exception: object) -> None:
        self._file.close()
        self._part.unlink(missing_ok=True)

    def write(self, chunk: bytes) -> None:
        self._file.write(chunk)
        self._sum.update(chunk)
        self._size += len(chunk)

    def keep(self, asset: Asset, announced: str | None) -> Path:
        """Check size and checksum, then give the file its name."""
        expected = asset["size"] if asset["size"] is not None else int(announced) if announced else self._size
        if self._size != expected:
            raise DownloadFailed(f"Only {self._size:,} of {expected:,} bytes arrived.")
        if asset["checksum"] is not None and asset["checksum"] != self._sum.hexdigest():
            raise DownloadFailed("The downloaded bytes are not the stored file: the checksum differs.")
        self._file.flush()
        os.fsync(self._file.fileno())
        # Some systems cannot rename an open file.
        self._file.close()
        try:
            # Unlike a rename, a link never replaces a file that appeared meanwhile.
            os.link(self._part, self._target)
        except FileExistsError:
            raise
        except OSError:
            # The file system has no links.
            self._part.rename(self._target)
        return self._target


def target_of(asset: Asset, path: str | os.PathLike[str]) -> Path:
    """Return the file to write: the path itself, or a new name inside it if it is an existing folder."""
    target = Path(path)
    return target / f"{asset['id']}{suffix_of(asset)}" if target.is_dir() else target


def suffix_of(asset: Asset) -> str:
    """Return the file name extension for an asset."""
    known = SUFFIXES.get(asset["content_type"] or "")
    return known or (".mp4" if asset["kind"] == "video" else ".png")


def is_same_file(asset: Asset, path: Path) -> bool:
    """Return whether the file holds this asset, judged by its checksum."""
    if asset["checksum"] is None:
        return False
    with contextlib.suppress(OSError), path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest() == asset["checksum"]
    return False
