"""Reference images given by address are really fetched, so that a bad one fails its task as it does at the provider."""

from __future__ import annotations

from typing import TYPE_CHECKING

import aiohttp

from longtake_sandbox.callbacks import Caller, is_loopback

if TYPE_CHECKING:
    from longtake_sandbox.sandbox import Box
    from longtake_sandbox.tasks import Task

FETCH_SECONDS = 10.0
LARGEST_BYTES = 30 * 1024 * 1024


class BadReference(Exception):
    """A reference cannot be used; its text is what the task's failure says."""


class References:
    """Fetches in the background; the task does not end before its references are there."""

    def __init__(self, box: Box) -> None:
        self._box = box
        self._caller = Caller()

    def fetch(self, task: Task, urls: list[str]) -> None:
        """Begin to fetch a task's references."""
        task.fetching = True
        self._caller.start(self._fetch_all(task, urls))

    async def close(self) -> None:
        """Stop fetching."""
        await self._caller.close()

    async def _fetch_all(self, task: Task, urls: list[str]) -> None:
        try:
            task.references = tuple([await self._fetch(url) for url in urls])
        except BadReference as bad:
            task.ending, task.failure = "fail", str(bad)
            self._box.journal.write(task)
        finally:
            task.fetching = False

    async def _fetch(self, url: str) -> bytes:
        if not is_loopback(url):
            raise BadReference(f"Failed to fetch the image: {url} is not an address of this machine.")
        limit = aiohttp.ClientTimeout(total=FETCH_SECONDS)
        try:
            async with self._caller.session.get(url, timeout=limit, allow_redirects=False) as response:
                if response.status != 200:  # noqa: PLR2004 - the only good one
                    raise BadReference(f"Failed to fetch the image: status {response.status}.")
                content = await response.content.read(LARGEST_BYTES + 1)
                while not response.content.at_eof() and len(content) <= LARGEST_BYTES:
                    content += await response.content.read(LARGEST_BYTES + 1 - len(content))
        except (aiohttp.ClientError, TimeoutError) as error:
            raise BadReference(f"Failed to fetch the image: {type(error).__name__}.") from error
        if len(content) > LARGEST_BYTES:
            raise BadReference("The image file is too large.")
        try:
            return await self._box.studio.reduce(content)
        except (OSError, ValueError) as error:
            raise BadReference("Image format is not supported or the file is damaged.") from error
