"""A file that is read, part by part, on threads."""

import os
from pathlib import Path

from longtake.adapters.storage.shared_file import HeldFile


class Outgoing(HeldFile):
    """Read by one thread at a time."""

    def __init__(self, path: Path) -> None:
        super().__init__(path, os.O_RDONLY)

    def read(self, length: int, offset: int) -> bytes:
        """Return at most so many bytes from there; none at the end."""
        with self.used() as descriptor:
            return os.pread(descriptor, length, offset)
