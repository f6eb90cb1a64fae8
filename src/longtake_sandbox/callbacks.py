"""Calls that the sandbox makes itself: to loopback addresses only, whatever it is told."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import hmac
import ipaddress
import math
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import aiohttp
import orjson

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine
    from typing import Any

    from longtake_sandbox.sandbox import Box
    from longtake_sandbox.tasks import Task

CONNECTIONS = 200


def is_loopback(url: str) -> bool:
    """Say whether an address is of this machine; names other than localhost are not even resolved."""
    try:
        parts = urlsplit(url)
        host = parts.hostname or ""
        return parts.scheme in {"http", "https"} and (host == "localhost" or ipaddress.ip_address(host).is_loopback)
    except ValueError:
        return False


class Caller:
    """A client that is opened with the first call, and the background work that uses it."""

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
        """Let something go on in the background."""
        task = asyncio.get_running_loop().create_task(work)
        self._work.add(task)
        task.add_done_callback(self._work.discard)

    async def close(self) -> None:
        """End what goes on and close the client."""
        for task in tuple(self._work):
            task.cancel()
        await asyncio.gather(*self._work, return_exceptions=True)
        if self._session is not None:
            await self._session.close()


LIMIT_SECONDS = 15.0
#: Between the first try and each of the three that follow.
RETRY_SECONDS = (0.5, 2.0, 5.0)
DUPLICATES = 3
UNKNOWN_TASK = "00000000000000000000000000000000"


class Callbacks:
    """Plans and sends callbacks; each family of tasks brings the shape of its own."""

    def __init__(self, box: Box) -> None:
        self._box = box
        self._caller = Caller()
        self.shapes: dict[str, Callable[[Box, Task], dict[str, Any]]] = {}

    def plan(self, task: Task) -> None:
        """See to it that a task's end is told, if somebody wants to hear of it."""
        if task.callback_url and not task.called_back and not math.isinf(task.seconds):
            self._caller.start(self._tell_end(task))

    async def send(self, task: Task, kind: str = "end") -> int:
        """Post a callback that should not be: duplicate, forged, early, unknown_task; return the receiver's status."""
        content = self._content(task)
        data = content["data"]
        if kind == "unknown_task":
            data["taskId"] = UNKNOWN_TASK
        if kind in {"early", "forged"}:
            lie = {
                "resultUrls": ["http://127.0.0.1:9/forged.png" if kind == "forged" else f"{self._box.url}/files/early"]
            }
            data.update(state="success", resultJson=orjson.dumps(lie).decode(), info=lie)
            content.update(code=200, msg="success")
        return await self._post(task, content, kind, key=None if kind == "forged" else self._box.options.webhook_key)

    async def close(self) -> None:
        """Send nothing more."""
        await self._caller.close()

    async def _tell_end(self, task: Task) -> None:
        await self._tell(task)
        task.called_back = True
        self._box.journal.write(task)

    async def _tell(self, task: Task) -> None:
        from longtake_sandbox.exchange import Exchange  # noqa: PLC0415 - that module needs the box

        exchange = Exchange(task.provider, "callback", task.callback_url)
        exchange.about(task)
        fault = self._box.faults.choose(exchange)
        if fault and fault.kind == "early":
            await self.send(task, "early")
        while not task.ended(self._box.now()):  # noqa: ASYNC110 - the end is a time, not an event
            await asyncio.sleep(max(task.ends_at - self._box.now(), 0.02))
        if fault:
            await asyncio.sleep(fault.delay)
        if fault and fault.kind == "drop":
            return
        if fault and fault.kind == "forged":
            await self.send(task, "forged")
            return
        for number in range(DUPLICATES if fault and fault.kind == "duplicate" else 1):
            await self._send_until_heard(task, "duplicate" if number else "")

    async def _send_until_heard(self, task: Task, fault: str) -> None:
        for pause in (*RETRY_SECONDS, None):
            status = await self._post(task, self._content(task), fault, key=self._box.options.webhook_key)
            if 200 <= status < 300 or pause is None:  # noqa: PLR2004 - the range of success
                return
            await asyncio.sleep(pause)

    def _content(self, task: Task) -> dict[str, Any]:
        return self.shapes[task.family](self._box, task)

    async def _post(self, task: Task, content: dict[str, Any], fault: str, *, key: str | None) -> int:
        call = self._box.calls.arrived(task.provider, "callback", "POST", task.callback_url)
        call.task, call.prompt, call.model, call.fault = task.id, task.prompt, task.model, fault
        status = 0
        if is_loopback(task.callback_url):
            limit = aiohttp.ClientTimeout(total=LIMIT_SECONDS)
            headers = {"Content-Type": "application/json", **self._signature(content, key)}
            try:
                async with self._caller.session.post(
                    task.callback_url, data=orjson.dumps(content), headers=headers, timeout=limit, allow_redirects=False
                ) as response:
                    status = response.status
            except (aiohttp.ClientError, TimeoutError):
                status = 0
        call.answered(status)
        self._box.report(call)
        return status

    def _signature(self, content: dict[str, Any], key: str | None) -> dict[str, str]:
        """Sign id and time, as KIE does: not the body. Without a right key it is signed with a wrong one."""
        if not self._box.options.webhook_key:
            return {}
        timestamp = str(int(self._box.now()))
        message = f"{content['data']['taskId']}.{timestamp}".encode()
        made = hmac.new((key or "a key of somebody else").encode(), message, hashlib.sha256).digest()
        return {"X-Webhook-Timestamp": timestamp, "X-Webhook-Signature": base64.b64encode(made).decode()}
