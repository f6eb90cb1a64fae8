"""The verbs of runs of scenes. `runs_synchronous.py` is made from this file by scripts/make_client.py."""

from __future__ import annotations

import json
import uuid
from typing import TYPE_CHECKING, Any, cast

from longtake.client.run_shapes import Advanced, Run, RunPage
from longtake.client.wire import query, route

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from longtake.client.resources_asynchronous import AsyncCaller


class AsyncRuns:
    """One's runs of scenes."""

    def __init__(self, caller: AsyncCaller) -> None:
        self._caller = caller

    async def create(
        self,
        prompts: Sequence[str],
        *,
        title: str | None = None,
        model: str | None = None,
        parameters: Mapping[str, Any] | None = None,
        advance: bool = False,
        idempotency_key: str | None = None,
    ) -> Run:
        """Write a run of 3, 5, 7 or 10 scenes, once, however often it had to be sent; `advance` queues its images."""
        body = {
            "title": title,
            "model": model,
            "parameters": dict(parameters or {}),
            "scenes": [{"prompt": prompt} for prompt in prompts],
            "advance": advance,
        }
        key = idempotency_key or str(uuid.uuid4())
        return cast("Run", await self._caller.post("/v1/runs", body, key=key))

    async def list(self, *, before: str | None = None, limit: int = 50) -> RunPage:
        """Return a page, newest first; its `next` is the `before` of the page after."""
        return cast("RunPage", await self._caller.get(f"/v1/runs{query(before=before, limit=limit)}"))

    async def get(self, run_id: str) -> Run:
        """Return a run with its scenes as they are now."""
        return cast("Run", await self._caller.get(route("runs", run_id)))

    async def advance(self, run_id: str, *, failed: bool = False) -> Advanced:
        """Queue the images that are missing; those that failed only if `failed`. Twice changes nothing."""
        return cast("Advanced", await self._send(run_id, "advance", {"failed": failed}))

    async def regenerate(self, run_id: str, number: int, *, prompt: str | None = None) -> Run:
        """Make one scene again, with other words if you like."""
        path = route("runs", run_id, "scenes", str(number), "regenerate")
        return cast("Run", await self._caller.post(path, {"prompt": prompt}))

    async def cancel(self, run_id: str) -> Run:
        """End what is under way; its credits come back. Twice changes nothing."""
        return cast("Run", await self._send(run_id, "cancel"))

    async def delete(self, run_id: str) -> None:
        """Delete a run of which nothing is under way, with its images."""
        await self._caller.send("DELETE", route("runs", run_id), repeatable=False)

    async def _send(self, run_id: str, verb: str, content: Any = None) -> Any:
        """Send what may be sent twice."""
        body = None if content is None else json.dumps(content).encode()
        headers = {"Content-Type": "application/json"}
        return await self._caller.send("POST", route("runs", run_id, verb), body, headers)
