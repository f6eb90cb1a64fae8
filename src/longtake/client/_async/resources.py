"""Requests with a token, and the API's resources: tasks, runs, assets, the catalogue, conversations, webhooks."""

from __future__ import annotations

import json
import uuid
from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import urljoin

from longtake.client.errors import LongtakeApiError, RetryBudget
from longtake.client.wire import LIMIT_SECONDS, Request, checked_token, content_of, query, route, server_address

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from longtake.client._async.transport import AsyncTransport
    from longtake.client.shapes import (
        Advanced,
        Asset,
        AssetPage,
        CatalogueStatus,
        DeliveryList,
        DeliveryWithPayload,
        ImportedItem,
        ImportedTitle,
        PosterDownload,
        Run,
        RunPage,
        Task,
        TaskPage,
        Title,
        TitlePage,
        Webhook,
        WebhookWithSecret,
    )  # fmt: skip

#: How long a server waits for running work when the catalogue is stopped.
REST_SECONDS = 20.0


class AsyncApi:
    """Sends requests as one user, and repeats the ones that are safe to repeat."""

    def __init__(self, transport: AsyncTransport, server: str, token: str, patience_seconds: float) -> None:
        self._transport = transport
        self._server = server_address(server)
        self._token = checked_token(token)
        self.patience_seconds = patience_seconds

    async def get(self, path: str, headers: Mapping[str, str] | None = None, seconds: float = LIMIT_SECONDS) -> Any:
        return await self.send(Request("GET", path, headers or {}, seconds=seconds))

    async def post(
        self,
        path: str,
        content: Any = None,
        *,
        key: str | None = None,
        repeatable: bool = False,
        seconds: float = LIMIT_SECONDS,
    ) -> Any:
        """Send a POST request. It is repeated if it is `repeatable`, or if its idempotency key makes it so."""
        headers = {"Content-Type": "application/json"} | ({} if key is None else {"Idempotency-Key": key})
        body = None if content is None else json.dumps(content).encode()
        return await self.send(Request("POST", path, headers, body, repeatable or key is not None, seconds))

    async def delete(self, path: str) -> None:
        """Send a DELETE request, once: repeated it would find nothing."""
        await self.send(Request("DELETE", path, repeatable=False))

    async def send(self, request: Request) -> Any:
        """Send a request for a path of the server until an answer arrives or the retry budget ends."""
        request = self.with_token(request)
        budget = RetryBudget(self.patience_seconds)
        while True:
            try:
                return content_of(await self._transport.send(request))
            except LongtakeApiError as error:
                pause = budget.pause(error, repeatable=request.repeatable)
            await self._transport.pause(pause)

    def with_token(self, request: Request) -> Request:
        """Return the request for a path with the server's address and this user's token."""
        headers = {"Authorization": f"Bearer {self._token}", **request.headers}
        return replace(request, url=self._server + request.url, headers=headers)

    def absolute(self, url: str) -> str:
        """Return a link of the server as an absolute address."""
        return urljoin(self._server + "/", url)


class AsyncResource:
    """A part of the API."""

    def __init__(self, api: AsyncApi) -> None:
        self._api = api


class AsyncTasks(AsyncResource):
    """The user's tasks."""

    async def list(
        self,
        *,
        status: Sequence[str] = (),
        type: str | None = None,  # noqa: A002 - the word of the HTTP API
        model: str | None = None,
        conversation_id: str | None = None,
        before: str | None = None,
        limit: int = 50,
    ) -> TaskPage:
        """Return a page, newest first; its `next` is the `before` of the page after."""
        filters = query(
            status=[*status], type=type, model=model, conversation_id=conversation_id, before=before, limit=limit
        )
        return cast("TaskPage", await self._api.get(f"/v1/tasks{filters}"))

    async def pending(self) -> Sequence[Task]:
        """Return all unfinished tasks, oldest first."""
        return cast("Sequence[Task]", (await self._api.get("/v1/tasks/pending"))["tasks"])

    async def get(self, task_id: str, *, wait: int = 0) -> Task:
        """Return a task; with `wait` (up to 60 seconds) as soon as it ends or the time is up."""
        headers = {"Prefer": f"wait={wait}"} if wait else {}
        return cast("Task", await self._api.get(route("tasks", task_id), headers, LIMIT_SECONDS + wait))

    async def cancel(self, task_id: str) -> Task:
        """Cancel a task; its credits are returned."""
        # Cancelling twice changes nothing.
        return cast("Task", await self._api.send(Request("POST", route("tasks", task_id, "cancel"))))

    async def retry(self, task_id: str, *, idempotency_key: str | None = None) -> Task:
        """Start a new task like one that failed or was cancelled."""
        key = idempotency_key or str(uuid.uuid4())
        return cast("Task", await self._api.post(route("tasks", task_id, "retry"), key=key))

    async def delete(self, task_id: str) -> None:
        """Delete a task that has ended, with its messages, its results and their files."""
        await self._api.delete(route("tasks", task_id))


class AsyncRuns(AsyncResource):
    """The user's runs of scenes."""

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
        """Create a run of 3, 5, 7 or 10 scenes, exactly once despite repeats; `advance` queues its images."""
        body = {
            "title": title,
            "model": model,
            "parameters": dict(parameters or {}),
            "scenes": [{"prompt": prompt} for prompt in prompts],
            "advance": advance,
        }
        key = idempotency_key or str(uuid.uuid4())
        return cast("Run", await self._api.post("/v1/runs", body, key=key))

    async def list(self, *, before: str | None = None, limit: int = 50) -> RunPage:
        """Return a page, newest first; its `next` is the `before` of the page after."""
        return cast("RunPage", await self._api.get(f"/v1/runs{query(before=before, limit=limit)}"))

    async def get(self, run_id: str) -> Run:
        """Return a run with its scenes."""
        return cast("Run", await self._api.get(route("runs", run_id)))

    async def advance(self, run_id: str, *, failed: bool = False) -> Advanced:
        """Queue missing images; failed ones only with `failed`. Repeating changes nothing."""
        path = route("runs", run_id, "advance")
        return cast("Advanced", await self._api.post(path, {"failed": failed}, repeatable=True))

    async def regenerate(self, run_id: str, number: int, *, prompt: str | None = None) -> Run:
        """Make one scene again, with another prompt if given."""
        path = route("runs", run_id, "scenes", str(number), "regenerate")
        return cast("Run", await self._api.post(path, {"prompt": prompt}))

    async def cancel(self, run_id: str) -> Run:
        """Cancel unfinished scenes; their credits are returned. Repeating changes nothing."""
        return cast("Run", await self._api.post(route("runs", run_id, "cancel"), repeatable=True))

    async def delete(self, run_id: str) -> None:
        """Delete a run with its images; none may be unfinished."""
        await self._api.delete(route("runs", run_id))


class AsyncAssets(AsyncResource):
    """The user's media files: results, reference images and imports."""

    async def add(self, url: str, *, kind: str | None = None, title: str | None = None) -> Asset:
        """Import a file by its address; the same address is always the same asset."""
        content = {"url": url, "kind": kind, "title": title}
        return cast("Asset", await self._api.post("/v1/assets", content, repeatable=True))

    async def add_many(self, files: Sequence[Mapping[str, Any]]) -> Sequence[ImportedItem]:
        """Import up to 100 files; return for each, in order, its `asset` or why it was `refused`."""
        answer = await self._api.post("/v1/assets/import", {"assets": [*files]}, repeatable=True)
        return cast("Sequence[ImportedItem]", answer["items"])

    async def list(
        self,
        *,
        role: str | None = None,
        kind: str | None = None,
        state: str | None = None,
        before: str | None = None,
        limit: int = 50,
    ) -> AssetPage:
        """Return a page, newest first; its `next` is the `before` of the page after."""
        filters = query(role=role, kind=kind, state=state, before=before, limit=limit)
        return cast("AssetPage", await self._api.get(f"/v1/assets{filters}"))

    async def get(self, asset_id: str) -> Asset:
        """Return an asset with new links."""
        return cast("Asset", await self._api.get(route("assets", asset_id)))

    async def retry(self, asset_id: str, *, force: bool = False) -> Asset:
        """Retry a missing copy and thumbnail now; `force` copies the file again."""
        return cast("Asset", await self._api.post(route("assets", asset_id, "retry"), {"force": force}))

    async def delete(self, asset_id: str) -> None:
        """Delete an uploaded or imported file. A result is deleted with its task."""
        await self._api.delete(route("assets", asset_id))


class AsyncCatalogue(AsyncResource):
    """Titles with their posters and ids. Changes need the scope `operate`."""

    async def add(self, **fields: Any) -> Title:
        """Add a title or update an existing one; the fields are those of the HTTP API."""
        return cast("Title", await self._send("titles", content=fields))

    async def add_many(self, titles: Sequence[Mapping[str, Any]]) -> Sequence[ImportedTitle]:
        """Add or update up to 500 titles; return each outcome, in order. Repeating changes nothing."""
        answer = await self._send("titles", "import", content={"titles": [*titles]})
        return cast("Sequence[ImportedTitle]", answer["items"])

    async def list(
        self,
        *,
        poster: str | None = None,
        tmdb: str | None = None,
        in_trouble: bool = False,
        bangumi_id: int | None = None,
        year: int | None = None,
        before: str | None = None,
        limit: int = 50,
    ) -> TitlePage:
        """Return a page, newest first; its `next` is the `before` of the page after."""
        trouble = "true" if in_trouble else None
        filters = query(
            poster=poster, tmdb=tmdb, in_trouble=trouble, bangumi_id=bangumi_id, year=year, before=before, limit=limit
        )
        return cast("TitlePage", await self._api.get(route("catalogue", "titles") + filters))

    async def get(self, title_id: str) -> Title:
        """Return a title as it is now."""
        return cast("Title", await self._api.get(route("catalogue", "titles", title_id)))

    async def choose(self, title_id: str, tmdb_id: int | None) -> Title:
        """Set the TMDB show of a title; None means that TMDB does not have it."""
        return cast("Title", await self._send("titles", title_id, "match", content={"tmdb_id": tmdb_id}))

    async def look_up_again(self, title_id: str) -> Title:
        """Forget a title's TMDB show and look it up again."""
        return cast("Title", await self._send("titles", title_id, "match", content={"automatic": True}))

    async def delete(self, title_id: str) -> None:
        """Delete a title, and its poster if no other title has it."""
        await self._api.delete(route("catalogue", "titles", title_id))

    async def download(self, posters: Mapping[str, str]) -> Sequence[PosterDownload]:
        """Give titles, by id, the posters at these addresses, and fetch them now."""
        downloads = [{"title_id": title_id, "url": url} for title_id, url in posters.items()]
        answer = await self._send("posters", content={"downloads": downloads})
        return cast("Sequence[PosterDownload]", answer["items"])

    async def sync(self) -> str:
        """Start a sync now; return its job id."""
        return cast("str", (await self._send("sync"))["job_id"])

    async def refresh_calendar(self) -> str:
        """Fetch Bangumi's calendar now, then sync; return the job id."""
        return cast("str", (await self._send("calendar"))["job_id"])

    async def status(self) -> CatalogueStatus:
        """Return the state of the catalogue."""
        return cast("CatalogueStatus", await self._api.get(route("catalogue", "status")))

    async def stop(self) -> bool:
        """Stop work on the catalogue; return whether all of it has ended."""
        answer = await self._send("shutdown", seconds=LIMIT_SECONDS + REST_SECONDS)
        return cast("bool", answer["at_rest"])

    async def start(self) -> None:
        """Resume work on the catalogue."""
        await self._send("start")

    async def _send(self, *parts: str, content: Any = None, seconds: float = LIMIT_SECONDS) -> Any:
        """Send a request that may be repeated."""
        return await self._api.post(route("catalogue", *parts), content, repeatable=True, seconds=seconds)


class AsyncConversations(AsyncResource):
    """The user's conversations."""

    async def delete(self, conversation_id: str) -> None:
        """Delete a conversation with its messages and its tasks, which must all have ended."""
        await self._api.delete(route("conversations", conversation_id))


class AsyncWebhooks(AsyncResource):
    """The user's webhooks: addresses that receive events."""

    async def create(self, url: str, *, events: Sequence[str] = (), description: str = "") -> WebhookWithSecret:
        """Create a webhook. Only this answer and that of `rotate` show a `secret`."""
        content = {"url": url, "events": [*events], "description": description}
        return cast("WebhookWithSecret", await self._api.post("/v1/webhooks", content))

    async def list(self) -> Sequence[Webhook]:
        """Return all webhooks."""
        return cast("Sequence[Webhook]", (await self._api.get("/v1/webhooks"))["webhooks"])

    async def get(self, webhook_id: str) -> Webhook:
        """Return a webhook."""
        return cast("Webhook", await self._api.get(route("webhooks", webhook_id)))

    async def update(self, webhook_id: str, **changes: Any) -> Webhook:
        """Change a webhook's url, events or description, or enable or disable it."""
        headers = {"Content-Type": "application/json"}
        request = Request("PATCH", route("webhooks", webhook_id), headers, json.dumps(changes).encode())
        return cast("Webhook", await self._api.send(request))

    async def delete(self, webhook_id: str) -> None:
        """Delete a webhook."""
        await self._api.delete(route("webhooks", webhook_id))

    async def rotate(self, webhook_id: str) -> WebhookWithSecret:
        """Create a new secret, shown once; for a day the old one signs as well."""
        return cast("WebhookWithSecret", await self._api.post(route("webhooks", webhook_id, "rotate")))

    async def test(self, webhook_id: str) -> DeliveryWithPayload:
        """Send a test event."""
        return cast("DeliveryWithPayload", await self._api.post(route("webhooks", webhook_id, "test")))

    async def deliveries(self, webhook_id: str, **filters: Any) -> DeliveryList:
        """Return a page of deliveries, newest first."""
        return cast("DeliveryList", await self._api.get(route("webhooks", webhook_id, "deliveries") + query(**filters)))

    async def delivery(self, webhook_id: str, delivery_id: str) -> DeliveryWithPayload:
        """Return one delivery with its payload."""
        path = route("webhooks", webhook_id, "deliveries", delivery_id)
        return cast("DeliveryWithPayload", await self._api.get(path))

    async def redeliver(self, webhook_id: str, delivery_id: str) -> DeliveryWithPayload:
        """Try a delivery now. One that has ended starts over with all its attempts."""
        path = route("webhooks", webhook_id, "deliveries", delivery_id, "redeliver")
        return cast("DeliveryWithPayload", await self._api.post(path))
