"""Reference images: fetched from their URLs, so that a bad one fails its task as it would at the provider."""

from __future__ import annotations

from typing import TYPE_CHECKING

import aiohttp

from longtake_sandbox.callbacks import LoopbackClient, is_loopback

if TYPE_CHECKING:
    from longtake_sandbox.sandbox import Sandbox
    from longtake_sandbox.tasks import Task

FETCH_SECONDS = 10.0
LARGEST_BYTES = 30 * 1024 * 1024


class BadReference(Exception):
    """A reference cannot be used. Its text becomes the task's failure message."""


class References:
    """Fetches references in the background. A task does not end before its references are fetched."""

    def __init__(self, sandbox: Sandbox) -> None:
        self._sandbox = sandbox
        self._client = LoopbackClient()

    def fetch(self, task: Task, urls: list[str]) -> None:
        """Start to fetch the references of a task."""
        task.fetching = True
        self._client.start(self._fetch_all(task, urls))

    async def close(self) -> None:
        """Stop fetching."""
        await self._client.close()

    async def _fetch_all(self, task: Task, urls: list[str]) -> None:
        try:
            task.references = tuple([await self._fetch(url) for url in urls])
        except BadReference as bad:
            task.ending, task.failure = "fail", str(bad)
            self._sandbox.journal.write(task)
        finally:
            task.fetching = False

    async def _fetch(self, url: str) -> bytes:
        if not is_loopback(url):
            raise BadReference(f"Failed to fetch the image: {url} is not an address of this machine.")
        limit = aiohttp.ClientTimeout(total=FETCH_SECONDS)
        try:
            async with self._client.session.get(url, timeout=limit, allow_redirects=False) as response:
                if response.status != 200:  # noqa: PLR2004 - the only status with an image
                    raise BadReference(f"Failed to fetch the image: status {response.status}.")
                content = await response.content.read(LARGEST_BYTES + 1)
                while not response.content.at_eof() and len(content) <= LARGEST_BYTES:
                    content += await response.content.read(LARGEST_BYTES + 1 - len(content))
        except (aiohttp.ClientError, TimeoutError) as error:
            raise BadReference(f"Failed to fetch the image: {type(error).__name__}.") from error
        if len(content) > LARGEST_BYTES:
            raise BadReference("The image file is too large.")
        try:
            return await self._sandbox.studio.reduce(content)
        except (OSError, ValueError) as error:
            raise BadReference("Image format is not supported or the file is damaged.") from error
