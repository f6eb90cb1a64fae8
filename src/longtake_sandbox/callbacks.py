"""The requests of the sandbox itself, to loopback addresses only: callbacks that report a task's end, and references.

References are fetched, so that a bad one fails its task as it would at the provider.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import hashlib
import hmac
import ipaddress
import math
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import aiohttp
import orjson

from longtake_sandbox.calls import Exchange

if TYPE_CHECKING:
    from collections.abc import Coroutine, Sequence

    from longtake_sandbox.sandbox import Sandbox
    from longtake_sandbox.tasks import Task

CONNECTIONS = 400
CALLBACK_SECONDS = 15.0
#: The pauses after the first try and the next two; the fourth try is the last.
RETRY_SECONDS = (0.5, 2.0, 5.0)
DUPLICATES = 3
UNKNOWN_TASK = "00000000000000000000000000000000"


def is_loopback(url: str) -> bool:
    """Return whether a URL points to this machine. Of all names only localhost counts; none is resolved."""
    try:
        parts = urlsplit(url)
        host = parts.hostname or ""
        return parts.scheme in {"http", "https"} and (host == "localhost" or ipaddress.ip_address(host).is_loopback)
    except ValueError:
        return False


class LoopbackClient:
    """An HTTP session, opened on first use, and the background work that uses it."""

    def __init__(self) -> None:
        self._session: aiohttp.ClientSession | None = None
        self._work: set[asyncio.Task[None]] = set()

    @property
    def session(self) -> aiohttp.ClientSession:
        if self._session is None:
            connector = aiohttp.TCPConnector(limit=CONNECTIONS)
            self._session = aiohttp.ClientSession(connector=connector, trust_env=False)
        return self._session

    def start(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._work.add(task)
        task.add_done_callback(self._work.discard)

    async def close(self) -> None:
        for task in tuple(self._work):
            task.cancel()
        await asyncio.gather(*self._work, return_exceptions=True)
        if self._session is not None:
            await self._session.close()


def plan_callback(sandbox: Sandbox, task: Task) -> None:
    """Send a callback when the task ends, if it has a callback URL and a finite duration."""
    if task.callback_url and not task.called_back and not math.isinf(task.seconds):
        sandbox.client.start(_report_end(sandbox, task))


async def send_callback(sandbox: Sandbox, task: Task, kind: str) -> int:
    """Post a duplicate, forged, early or unknown_task callback now; return the receiver's status."""
    content = sandbox.callback_shapes[task.family](sandbox, task)
    data = content["data"]
    if kind == "unknown_task":
        data["taskId"] = UNKNOWN_TASK
    if kind in {"early", "forged"}:
        url = "http://127.0.0.1:9/forged.png" if kind == "forged" else f"{sandbox.url}/files/early"
        lie = {"resultUrls": [url]}
        data.update(state="success", resultJson=orjson.dumps(lie).decode(), info=lie)
        content.update(code=200, msg="success")
    key = None if kind == "forged" else sandbox.options.webhook_key
    return await _post(sandbox, task, content, kind, key=key)


async def _report_end(sandbox: Sandbox, task: Task) -> None:
    await _wait_and_send(sandbox, task)
    task.called_back = True
    sandbox.journal.write(task)


async def _wait_and_send(sandbox: Sandbox, task: Task) -> None:
    exchange = Exchange(task.provider, "callback", task.callback_url)
    exchange.about(task)
    fault = sandbox.faults.choose(exchange)
    if fault and fault.kind == "early":
        await send_callback(sandbox, task, "early")
    while not task.ended(sandbox.now()):  # noqa: ASYNC110 - the end is a time, not an event
        await asyncio.sleep(max(task.ends_at - sandbox.now(), 0.02))
    if fault:
        await asyncio.sleep(fault.delay)
    if fault and fault.kind == "drop":
        return
    if fault and fault.kind == "forged":
        await send_callback(sandbox, task, "forged")
        return
    for number in range(DUPLICATES if fault and fault.kind == "duplicate" else 1):
        await _send_with_retries(sandbox, task, "duplicate" if number else "")


async def _send_with_retries(sandbox: Sandbox, task: Task, fault: str) -> None:
    for pause in (*RETRY_SECONDS, None):
        content = sandbox.callback_shapes[task.family](sandbox, task)
        status = await _post(sandbox, task, content, fault, key=sandbox.options.webhook_key)
        if 200 <= status < 300 or pause is None:  # noqa: PLR2004 - the range of success
            return
        await asyncio.sleep(pause)


async def _post(sandbox: Sandbox, task: Task, content: dict[str, Any], fault: str, *, key: str | None) -> int:
    call = sandbox.calls.arrived(task.provider, "callback", "POST", task.callback_url)
    call.task, call.prompt, call.model, call.fault = task.id, task.prompt, task.model, fault
    status = 0
    if is_loopback(task.callback_url):
        limit = aiohttp.ClientTimeout(total=CALLBACK_SECONDS)
        headers = {"Content-Type": "application/json", **_signature(sandbox, content, key)}
        with contextlib.suppress(aiohttp.ClientError, TimeoutError):
            async with sandbox.client.session.post(
                task.callback_url, data=orjson.dumps(content), headers=headers, timeout=limit, allow_redirects=False
            ) as response:
                status = response.status
    call.answered(status)
    sandbox.report(call)
    return status


def _signature(sandbox: Sandbox, content: dict[str, Any], key: str | None) -> dict[str, str]:
    """Sign the id and the time, not the body, as KIE does. With `key` None the signature is forged."""
    if not sandbox.options.webhook_key:
        return {}
    timestamp = str(int(sandbox.now()))
    message = f"{content['data']['taskId']}.{timestamp}".encode()
    made = hmac.new((key or "a wrong key").encode(), message, hashlib.sha256).digest()
    return {"X-Webhook-Timestamp": timestamp, "X-Webhook-Signature": base64.b64encode(made).decode()}


FETCH_SECONDS = 10.0
LARGEST_BYTES = 30 * 1024 * 1024


class BadReference(Exception):
    """A reference cannot be used. Its text becomes the task's failure message."""


async def fetch_references(sandbox: Sandbox, task: Task, urls: Sequence[str]) -> None:
    """Fetch the references of a task, which does not end before."""
    try:
        task.references = tuple([await _fetch(sandbox, url) for url in urls])
    except BadReference as bad:
        task.ending, task.failure = "fail", str(bad)
        sandbox.journal.write(task)
    finally:
        task.fetching = False


async def _fetch(sandbox: Sandbox, url: str) -> bytes:
    if not is_loopback(url):
        raise BadReference(f"Failed to fetch the image: {url} is not an address of this machine.")
    limit = aiohttp.ClientTimeout(total=FETCH_SECONDS)
    try:
        async with sandbox.client.session.get(url, timeout=limit, allow_redirects=False) as response:
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
        return await sandbox.studio.reduce(content)
    except (OSError, ValueError) as error:
        raise BadReference("Image format is not supported or the file is damaged.") from error
