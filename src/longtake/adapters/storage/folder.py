"""What is in a folder of objects; all of it is asked on a thread."""

from __future__ import annotations

import contextlib
import itertools
import os
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from longtake.adapters.storage.media import type_of_key
from longtake.adapters.storage.storage import Facts

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

LISTED_AT_ONCE = 500


def walk(root: Path, folder: Path, after: str) -> Iterator[Facts]:
    """Yield in the order of keys, as buckets do: a folder stands where its name with a slash would."""
    begin = folder.relative_to(root).as_posix()
    for name in _names_in(folder):
        key = f"{begin}/{name}"
        if name.endswith("/") and (key > after or after.startswith(key)):
            yield from walk(root, root / key, after)
        elif key > after and not name.endswith("/"):
            with contextlib.suppress(FileNotFoundError):
                yield facts_of(key, (root / key).stat())


def take(found: Iterator[Facts]) -> list[Facts]:
    """Return the next page of a walk."""
    return list(itertools.islice(found, LISTED_AT_ONCE))


def those_there(root: str, questions: Sequence[Sequence[str]]) -> dict[Sequence[str], list[str]]:
    """Return for each question those of its keys whose files are there."""
    return {keys: [key for key in keys if _is_there(f"{root}/{key}")] for keys in questions}


def facts_of(key: str, status: os.stat_result) -> Facts:
    """Return what the system says of a file, as a store says it."""
    modified = datetime.fromtimestamp(status.st_mtime, UTC)
    return Facts(key, status.st_size, f'"{status.st_mtime_ns:x}-{status.st_size:x}"', modified, type_of_key(key))


def _is_there(path: str) -> bool:
    # Unlike Path.exists this does not take a folder that cannot be used for one that is empty.
    try:
        os.stat(path)  # noqa: PTH116 - asked four times for every poster
    except FileNotFoundError:
        return False
    return True


def _names_in(folder: Path) -> list[str]:
    try:
        with os.scandir(folder) as found:
            return sorted(f"{one.name}/" if one.is_dir() else one.name for one in found)
    except FileNotFoundError:
        return []
