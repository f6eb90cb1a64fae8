"""server.json: how commands on this machine find the server that owns the SQLite file, and prove who they are.

Readable by its owner alone. A file that a killed server left behind is recognised: the lock beside the database names
the process that holds it, and only a server.json of that very process counts.
"""

import contextlib
import json
import os
import re
import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from longtake.db import sqlite_path
from longtake.db.ownership import lock_path
from longtake.settings import Settings

FILE_NAME = "server.json"
_HOLDER = re.compile(r"\(process (?P<pid>\d+)\)\s*$")


@dataclass(frozen=True)
class ServerFile:
    """Where a server listens, its token, and which process it is."""

    url: str
    token: str
    pid: int


def write_server_file(folder: Path, server: ServerFile) -> None:
    """Write the file so that only its owner can read it."""
    write_private_file(folder / FILE_NAME, asdict(server))


def read_server_file(folder: Path) -> ServerFile | None:
    """Return the file's content; None if it is missing or cannot be parsed."""
    try:
        content = json.loads((folder / FILE_NAME).read_text(encoding="utf-8"))
        return ServerFile(str(content["url"]), str(content["token"]), int(content["pid"]))
    except (OSError, ValueError, KeyError, TypeError):
        return None


def remove_server_file(folder: Path, server: ServerFile) -> None:
    """Remove it, if it is still this server's: another may have started since."""
    if read_server_file(folder) == server:
        with contextlib.suppress(FileNotFoundError):
            (folder / FILE_NAME).unlink()


def server_of_database(settings: Settings) -> ServerFile | None:
    """Return the server that owns the SQLite file; None when it is owned by something else, or the file is stale."""
    server = read_server_file(settings.data_dir)
    if server is None:
        return None
    try:
        holder = _HOLDER.search(lock_path(sqlite_path(settings.database_url)).read_text(encoding="utf-8"))
    except OSError:
        return None
    return server if holder is not None and int(holder["pid"]) == server.pid else None


def write_private_file(file: Path, content: Any) -> None:
    """Write JSON atomically; other users can never read it."""
    file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    # mkstemp makes files with mode 600.
    descriptor, name = tempfile.mkstemp(prefix=f".{file.name}.", dir=file.parent)
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as out:
            json.dump(content, out)
        Path(name).replace(file)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
