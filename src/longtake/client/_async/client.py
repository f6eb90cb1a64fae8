"""The client itself: generate, follow, download, and the API's resources."""

from __future__ import annotations

import contextlib
import uuid
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Self, cast

from longtake.client._async import resources
from longtake.client._async.transport import AsyncTransport
from longtake.client.download import PartFile, target_of
from longtake.client.errors import DownloadFailed, LongtakeApiError, RetryBudget, ServerUnreachable
from longtake.client.wire import (
    FIRST_REFUSAL,
    Event,
    EventStream,
    Request,
    bytes_of,
    content_of,
    picture_type,
    query,
    route,
)

if TYPE_CHECKING:
    import os
    from collections.abc import AsyncGenerator, Mapping, Sequence
    from pathlib import Path

    from longtake.client.shapes import Asset, Balance, Me, Model, Run, Snapshot, Task

DEFAULT_SERVER = "http://127.0.0.1:8484"
#: A stream that is silent for so long is dead; heartbeats come every 15 seconds.
SILENCE_SECONDS = 45.0
#: Seconds between two looks at a task where there is no event stream.
LOOK_SECONDS = 2
#: Events about the stream itself, which callers do not see (`reset` is passed on later).
QUIET = {"heartbeat", "farewell", "reset"}
#: With these refusals `follow` polls instead.
NO_STREAM = ("ROUTE_UNKNOWN", "STREAMS_TOO_MANY")
DOWNLOAD_ATTEMPTS = 3


class AsyncClient:
    """Everything one user can do. Repeatable calls are retried while the server is down or asks to wait."""

    def __init__(self, server: str = DEFAULT_SERVER, token: str = "", *, patience_seconds: float = 30.0) -> None:
        self._transport = AsyncTransport()
        self._api = resources.AsyncApi(self._transport, server, token, patience_seconds)
        self.tasks = resources.AsyncTasks(self._api)
        self.assets = resources.AsyncAssets(self._api)
        self.runs = resources.AsyncRuns(self._api)
        self.catalogue = resources.AsyncCatalogue(self._api)
        self.conversations = resources.AsyncConversations(self._api)
        self.webhooks = resources.AsyncWebhooks(self._api)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_exception: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Close all connections."""
        await self._transport.close()

    async def generate(
        self,
        prompt: str,
        *,
        type: str | None = None,  # noqa: A002 - the word of the HTTP API
        model: str | None = None,
        parameters: Mapping[str, Any] | None = None,
        references: Sequence[str] = (),
        conversation_id: str | None = None,
        idempotency_key: str | None = None,
        wait: bool = False,
    ) -> Task:
        """Start an image or a video, exactly once despite repeats; `wait` returns the task when it has ended.

        Without a model, the first usable one for this type and number of reference images is taken.
        """
        kind, name = type, model
        if kind is None or name is None:
            kind, name = choose_model(await self.models(), type, model, len(references))
        body = {
            "model": name,
            "prompt": prompt,
            "parameters": dict(parameters or {}),
            "references": list(references),
            "conversation_id": conversation_id,
        }
        key = idempotency_key or str(uuid.uuid4())
        task = cast("Task", await self._api.post(route(f"{kind}s", "generate"), body, key=key))
        if wait:
            async for state in self.follow(task["id"]):
                task = state
        return task

    async def models(self) -> list[Model]:
        """Return the models."""
        return cast("list[Model]", (await self._api.get("/v1/models"))["models"])

    async def me(self) -> Me:
        """Return the user of the token, and what it may do."""
        return cast("Me", await self._api.get("/v1/me"))

    async def balance(self) -> Balance:
        """Return the user's credits."""
        return cast("Balance", await self._api.get("/v1/credits"))

    async def snapshot(self) -> Snapshot:
        """Return one consistent view: unfinished and recent tasks, conversations, credits."""
        return cast("Snapshot", await self._api.get("/v1/snapshot"))

    async def upload_reference(self, file: str | os.PathLike[str] | bytes) -> Asset:
        """Upload a reference image; pass its `id` in `references`."""
        content = bytes_of(file)
        headers = {"Content-Type": picture_type(content)}
        # Sent twice it would make two assets.
        return cast(
            "Asset", await self._api.send(Request("POST", "/v1/references", headers, content, repeatable=False))
        )

    def events(self, cursor: str | None = None, *, types: Sequence[str] = ()) -> AsyncGenerator[Event]:
        """Yield the user's events after the cursor, or from now on, forever; reconnects after a lost connection.

        Each connection begins with `ready`. `reset` comes before it if events were missed: read the state again.
        """
        return self._events(cursor, types)

    async def _events(
        self, cursor: str | None, types: Sequence[str], end_on: Sequence[str] = ()
    ) -> AsyncGenerator[Event]:
        budget = RetryBudget(self._api.patience_seconds)
        missed: Event | None = None
        while True:
            try:
                async with contextlib.aclosing(self._connection(cursor, types)) as connection:
                    async for event in connection:
                        budget.renew()
                        cursor = None if event.type == "reset" else event.cursor or cursor
                        if event.type == "reset":
                            missed = event
                        elif missed is not None:
                            # Not earlier: a caller that read the state before the stream began could miss an event.
                            yield replace(missed, cursor=cursor)
                            missed = None
                        if event.type not in QUIET:
                            yield event
                # The server closed the stream in order; another may take over at once.
                failure: LongtakeApiError = ServerUnreachable("The stream has ended.", sent=False)
            except LongtakeApiError as error:
                if error.code in end_on:
                    return
                failure = error
            await self._transport.pause(budget.pause(failure, repeatable=True))

    async def _connection(self, cursor: str | None, types: Sequence[str]) -> AsyncGenerator[Event]:
        headers = {"Accept": "text/event-stream"}
        if cursor is not None:
            headers["Last-Event-ID"] = cursor
        path = "/v1/events" + query(types=",".join(types) or None)
        request = self._api.with_token(Request("GET", path, headers, seconds=SILENCE_SECONDS))
        async with self._transport.open(request) as opened:
            if opened.status >= FIRST_REFUSAL:
                content_of(await opened.reply())
            stream = EventStream()
            async for piece in opened.pieces():
                for event in stream.feed(piece):
                    yield event

    async def follow(self, *task_ids: str) -> AsyncGenerator[Task]:
        """Yield each task now and after every change, until all have ended."""
        waiting = set(task_ids)
        async with contextlib.aclosing(self._events(None, ["task.*"], NO_STREAM)) as events:
            async for event in events:
                # Changes before the connection began may have been missed.
                changed = waiting if event.type == "ready" else waiting & {event.subject}
                for task_id in sorted(changed):
                    task = await self.tasks.get(task_id)
                    yield task
                    if task["ended_at"] is not None:
                        waiting = waiting - {task_id}
                if not waiting:
                    return
        # There is no stream.
        seconds = 0
        while waiting:
            for task_id in sorted(waiting):
                task = await self.tasks.get(task_id, wait=seconds)
                # Waiting on one task is enough.
                seconds = 0
                yield task
                if task["ended_at"] is not None:
                    waiting = waiting - {task_id}
            seconds = LOOK_SECONDS

    async def follow_run(self, run_id: str) -> AsyncGenerator[Run]:
        """Yield a run now and after every change, until none of its images is unfinished."""
        async with contextlib.aclosing(self._events(None, ["run.*", "scene.*"], NO_STREAM)) as events:
            async for event in events:
                if event.type == "ready" or event.subject == run_id:
                    run = await self.runs.get(run_id)
                    yield run
                    if run["status"] != "generating":
                        return
        # There is no stream.
        while True:
            run = await self.runs.get(run_id)
            yield run
            if run["status"] != "generating":
                return
            await self._transport.pause(LOOK_SECONDS)

    async def download(self, result: Asset, path: str | os.PathLike[str]) -> Path:
        """Download a result to a file or into a folder. The file gets its name when complete; nothing is replaced."""
        for attempt in range(1, DOWNLOAD_ATTEMPTS + 1):
            asset = await self._ready(result["id"])
            try:
                return await self._fetch(asset, target_of(asset, path))
            except (DownloadFailed, ServerUnreachable):
                if attempt == DOWNLOAD_ATTEMPTS:
                    raise
        raise AssertionError("unreachable")

    async def _ready(self, asset_id: str) -> Asset:
        """Return the asset as soon as it has a link."""
        budget = RetryBudget(self._api.patience_seconds)
        while True:
            asset = cast("Asset", await self._api.get(route("assets", asset_id)))
            if asset["url"] is not None:
                return asset
            gone = DownloadFailed(f"The file of {asset_id} is not available: its copy is {asset['save_state']}.")
            if asset["save_state"] != "pending":
                raise gone
            gone.status, gone.retry_after = 503, 0.0
            await self._transport.pause(budget.pause(gone, repeatable=True))

    async def _fetch(self, asset: Asset, target: Path) -> Path:
        # No token: the link is enough, and it may point to another host.
        request = Request("GET", self._api.absolute(asset["url"] or ""))
        async with self._transport.open(request) as opened:
            if opened.status >= FIRST_REFUSAL:
                raise DownloadFailed(f"The file of {asset['id']} could not be downloaded (status {opened.status}).")
            with PartFile(target) as file:
                async for piece in opened.pieces():
                    file.write(piece)
                return file.keep(asset, opened.headers.get("content-length"))


def choose_model(models: Sequence[Model], kind: str | None, name: str | None, references: int) -> tuple[str, str]:
    """Return type and model: the named model, or the first usable one for the type and number of reference images."""
    if name is not None:
        # The server refuses a name it does not know, in its own words.
        known = next((model["type"] for model in models if model["name"] == name), "image")
        return kind or known, name
    task_type = kind or "image"
    inputs = f" with {references} reference images" if references else ""
    fitting = [model for model in models if model["type"] == task_type and _takes(model, references)]
    usable = next((model["name"] for model in fitting if model["available"]), None)
    if usable is None:
        raise LongtakeApiError(
            f"No model for {task_type}s{inputs} is available on this server.",
            code="PROVIDER_NOT_CONFIGURED" if fitting else "MODEL_UNKNOWN",
            hint=_keys(fitting) if fitting else "GET /v1/models lists all models.",
            facts={"models": [model["name"] for model in fitting]},
        )
    return task_type, usable


def _takes(model: Model, references: int) -> bool:
    return model["references"]["least"] <= references <= model["references"]["most"]


def _keys(models: Sequence[Model]) -> str:
    providers = sorted({model["provider"] for model in models})
    return f"The server's operator must set a provider's key: {', '.join(providers)}."
