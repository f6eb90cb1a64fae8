"""A file that gets its name only when it is whole."""

from __future__ import annotations

import contextlib
import hashlib
import os
import secrets
from pathlib import Path
from typing import TYPE_CHECKING, Self

from longtake.client.failures import DownloadFailed

if TYPE_CHECKING:
    from types import TracebackType

    from longtake.client.shapes import Asset

SUFFIXES = {
    "image/png": ".png", "image/jpeg": ".jpg", "image/webp": ".webp", "image/gif": ".gif",
    "video/mp4": ".mp4", "video/quicktime": ".mov", "video/webm": ".webm",
}  # fmt: skip


class PartFile:
    """Written beside its target as `….part`; what is there already under the target's name is never touched."""

    def __init__(self, target: Path) -> None:
        self._target = target
        self._part = target.with_name(f"{target.name}.{secrets.token_hex(4)}.part")

    def __enter__(self) -> Self:
        if self._target.exists():
            raise FileExistsError(f"{self._target} is there already")
        self._target.parent.mkdir(parents=True, exist_ok=True)
        self._file = self._part.open("xb")
        self._size = 0
        self._sum = hashlib.sha256()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._file.close()
        self._part.unlink(missing_ok=True)

    def write(self, chunk: bytes) -> None:
        """Add a piece."""
        self._file.write(chunk)
        self._sum.update(chunk)
        self._size += len(chunk)

    def keep(self, asset: Asset, announced: str | None) -> Path:
        """Give the file its name, if it is what was announced."""
        expected = asset["size"] if asset["size"] is not None else int(announced) if announced else self._size
        if self._size != expected:
            raise DownloadFailed(f"Of {expected:,} bytes {self._size:,} arrived.")
        if asset["checksum"] is not None and asset["checksum"] != self._sum.hexdigest():
            raise DownloadFailed("What arrived is not the file that was stored: its checksum differs.")
        self._file.flush()
        os.fsync(self._file.fileno())
        # Some systems rename no file that is open.
        self._file.close()
        try:
            # Unlike a rename this never replaces what somebody else put there meanwhile.
            os.link(self._part, self._target)
        except FileExistsError:
            raise
        except OSError:
            # A file system without links.
            self._part.rename(self._target)
        return self._target


def target_of(asset: Asset, path: str | os.PathLike[str]) -> Path:
    """Return the file to write: the path itself, or a name of its own in a folder that is there."""
    wanted = Path(path)
    return wanted / f"{asset['id']}{suffix_of(asset)}" if wanted.is_dir() else wanted


def suffix_of(asset: Asset) -> str:
    """Return how the name of such a file ends."""
    known = SUFFIXES.get(asset["content_type"] or "")
    return known or (".mp4" if asset["kind"] == "video" else ".png")


def is_same_file(asset: Asset, path: Path) -> bool:
    """Say whether the file there is this asset's, by its checksum."""
    if asset["checksum"] is None:
        return False
    with contextlib.suppress(OSError), path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest() == asset["checksum"]
    return False
