"""What a kill test of generation left in storage, compared with the rows and with what the provider had made."""

from __future__ import annotations

import hashlib
import itertools
import urllib.request
from collections import Counter
from typing import TYPE_CHECKING

from tests.wait import PATIENCE_SECONDS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from proofs.faults.generation_books import AssetRow, Books
    from proofs.faults.generation_story import Story

#: Fetched again from the provider, to see that the right file is with the right task.
SAMPLES = 12


def check_files(story: Story, books: Books) -> Iterator[str]:
    """Every completed task has its file, whole, its own and nobody else's; no other task has any."""
    results = Counter(asset.task for asset in books.assets)
    for task_id, task in books.tasks.items():
        if results[task_id] != (task.status == "completed"):
            yield f"{task_id}: {task.status}, with {results[task_id]} results"
    for asset in books.assets:
        yield from _check_file(story, asset)
    # Each prompt is drawn differently: what is there twice was given to the wrong task.
    checksums = Counter(asset.checksum for asset in books.assets)
    yield from (f"{count} results have the checksum {one}" for one, count in checksums.items() if count > 1)
    yield from _check_samples(books)


def _check_file(story: Story, asset: AssetRow) -> Iterator[str]:
    path = story.processes.storage / (asset.key or "none")
    if asset.state != "completed" or not path.is_file():
        yield f"{asset.task}: no copy of its result: {asset}"
        return
    content = path.read_bytes()
    if (len(content), hashlib.sha256(content).hexdigest()) != (asset.size, asset.checksum):
        yield f"{asset.task}: the copy of its result is not what its row says: {asset}"


def _check_samples(books: Books) -> Iterator[str]:
    public = (one for one in books.assets if one.source and "/files/" in one.source and "/gemini/" not in one.source)
    for asset in itertools.islice(public, SAMPLES):
        with urllib.request.urlopen(str(asset.source), timeout=PATIENCE_SECONDS) as answer:  # noqa: S310 - the sandbox's own address
            original = hashlib.sha256(answer.read()).hexdigest()
        if original != asset.checksum:
            yield f"{asset.task}: the copy is not the file that the provider made: {asset}"
