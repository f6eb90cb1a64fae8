"""Where files are until they are whole, and how they get their names in the folder of objects; all of it on threads."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from typing import TYPE_CHECKING

from longtake.adapters.storage.temp_file import Incoming, sync_folder
from longtake.clock import new_id

if TYPE_CHECKING:
    from datetime import datetime

#: Its dot keeps it apart from every key.
INCOMING = ".incoming"


class IncomingFolder:
    """Only the owner of the process may look into the folder."""

    def __init__(self, objects: Path) -> None:
        self._objects = objects
        self._prepared = False
        #: Folders that stay whatever is deleted, and whose own names are on the disk.
        self._lasting: set[Path] = set()

    def new(self) -> Incoming:
        """Return a file that is not there yet."""
        return Incoming(self._objects / INCOMING / new_id())

    def begin(self, incoming: Incoming) -> None:
        """Make the file."""
        if not self._prepared:
            self._prepare()
        try:
            incoming.begin()
        except FileNotFoundError:
            # Somebody has taken the folder away.
            self._prepare()
            incoming.begin()

    def name(self, incoming: Incoming, target: Path) -> None:
        """Give a file that is whole its name, once it is on the disk."""
        if incoming.become(target):
            self._lasting.discard(target.parent)

    def keep_names(self, folder: Path) -> None:
        """Bring names of files to the disk, and that of their folder where that was not done before."""
        sync_folder(folder)
        if folder not in self._lasting:
            sync_folder(folder.parent)
            # What is deleted takes its folder along, but for those right below ours.
            if folder.parent == self._objects:
                self._lasting.add(folder)

    def remove_unfinished(self, before: datetime) -> int:
        """Remove what was left by whoever died before it was whole; return how many files."""
        removed = 0
        with contextlib.suppress(FileNotFoundError), os.scandir(self._objects / INCOMING) as found:
            for one in found:
                # Whoever still writes changes the time.
                with contextlib.suppress(FileNotFoundError):
                    if one.stat().st_mtime < before.timestamp():
                        Path(one.path).unlink()
                        removed += 1
        return removed

    def _prepare(self) -> None:
        (self._objects / INCOMING).mkdir(mode=0o700, parents=True, exist_ok=True)
        # Others may have made the folder with other rights; users' media are for nobody else.
        with contextlib.suppress(PermissionError):
            self._objects.chmod(0o700)
        self._prepared = True
