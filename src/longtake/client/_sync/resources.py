"""Made from _async/resources.py by scripts/make_client.py: do not edit."""

from __future__ import annotations

import json
import uuid
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import urljoin

from longtake.client.errors import LongtakeApiError
from longtake.client.retry import RetryBudget
from longtake.client.shapes import Advanced, Asset, AssetPage, Run, RunPage, Task, TaskPage
from longtake.client.wire import LIMIT_SECONDS, Request, checked_token, content_of, query, route, server_address

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from longtake.client._sync.transport import Transport


class Api:
    """Sends requests as one user, and repeats the ones that are safe to repeat."""

    def __init__(self, transport: Transport, server: str, token: str, patience_seconds: float) -> None:
        self._transport = transport
        self._server = server_address(server)
        self._token = checked_token(token)
        self.patience_seconds = patience_seconds

    def get(self, path: str, headers: Mapping[str, str] | None = None, seconds: float = LIMIT_SECONDS) -> Any:
        """Send a GET request."""
        return self.send("GET", path, headers=headers, seconds=seconds)

    def post(
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
        repeatable = repeatable or key is not None
        return self.send("POST", path, body, headers, repeatable=repeatable, seconds=seconds)

    def send(
        self,
        method: str,
        path: str,
        body: bytes | None = None,
        headers: Mapping[str, str] | None = None,
        *,
        repeatable: bool = True,
        seconds: float = LIMIT_SECONDS,
    ) -> Any:
        """Send until an answer arrives or the retry budget ends."""
        request = self.request(method, path, body, headers, repeatable=repeatable, seconds=seconds)
        budget = RetryBudget(self.patience_seconds)
        while True:
            try:
                return content_of(self._transport.send(request))
            except LongtakeApiError as error:
                pause = budget.pause(error, repeatable=request.repeatable)
            self._transport.pause(pause)

    def request(
        self,
        method: str,
        path: str,
        body: bytes | None = None,
        headers: Mapping[str, str] | None = None,
        *,
        repeatable: bool = True,
        seconds: float = LIMIT_SECONDS,
    ) -> Request:
        """Return a request with this user's token."""
        known = {"Authorization": f"Bearer {self._token}", **(headers or {})}
        return Request(method, self._server + path, known, body, repeatable, seconds)

    def absolute(self, url: str) -> str:
        """Return a link of the server as an absolute address."""
        return urljoin(self._server + "/", url)


class Tasks:
    """The user's tasks."""

    def __init__(self, api: Api) -> None:
        self._api = api

    def list(
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
        return cast("TaskPage", self._api.get(f"/v1/tasks{filters}"))

    def pending(self) -> Sequence[Task]:
        """Return all unfinished tasks, oldest first."""
        return cast("Sequence[Task]", (self._api.get("/v1/tasks/pending"))["tasks"])

    def get(self, task_id: str, *, wait: int = 0) -> Task:
        """Return a task; with `wait` (up to 60 seconds) as soon as it ends or the time is up."""
        headers = {"Prefer": f"wait={wait}"} if wait else {}
        found = self._api.get(route("tasks", task_id), headers, LIMIT_SECONDS + wait)
        return cast("Task", found)

    def cancel(self, task_id: str) -> Task:
        """Cancel a task; its credits are returned."""
        # Cancelling twice changes nothing.
        return cast("Task", self._api.send("POST", route("tasks", task_id, "cancel")))

    def retry(self, task_id: str, *, idempotency_key: str | None = None) -> Task:
        """Start a new task like one that failed or was cancelled."""
        key = idempotency_key or str(uuid.uuid4())
        return cast("Task", self._api.post(route("tasks", task_id, "retry"), key=key))

    def delete(self, task_id: str) -> None:
        """Delete a task that has ended, with its messages, its results and their files."""
        self._api.send("DELETE", route("tasks", task_id), repeatable=False)


class Runs:
    """The user's runs of scenes."""

    def __init__(self, api: Api) -> None:
        self._api = api

    def create(
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
        return cast("Run", self._api.post("/v1/runs", body, key=key))

    def list(self, *, before: str | None = None, limit: int = 50) -> RunPage:
        """Return a page, newest first; its `next` is the `before` of the page after."""
        return cast("RunPage", self._api.get(f"/v1/runs{query(before=before, limit=limit)}"))

    def get(self, run_id: str) -> Run:
        """Return a run with its scenes."""
        return cast("Run", self._api.get(route("runs", run_id)))

    def advance(self, run_id: str, *, failed: bool = False) -> Advanced:
        """Queue missing images; failed ones only with `failed`. Repeating changes nothing."""
        return cast("Advanced", self._api.post(route("runs", run_id, "advance"), {"failed": failed}, repeatable=True))

    def regenerate(self, run_id: str, number: int, *, prompt: str | None = None) -> Run:
        """Make one scene again, with another prompt if given."""
        path = route("runs", run_id, "scenes", str(number), "regenerate")
        return cast("Run", self._api.post(path, {"prompt": prompt}))

    def cancel(self, run_id: str) -> Run:
        """Cancel unfinished scenes; their credits are returned. Repeating changes nothing."""
        return cast("Run", self._api.post(route("runs", run_id, "cancel"), repeatable=True))

    def delete(self, run_id: str) -> None:
        """Delete a run with its images; none may be unfinished."""
        self._api.send("DELETE", route("runs", run_id), repeatable=False)


class Assets:
    """The user's media files: results, reference images and imports."""

    def __init__(self, api: Api) -> None:
        self._api = api

    def add(self, url: str, *, kind: str | None = None, title: str | None = None) -> Asset:
        """Import a file by its address; the same address is always the same asset."""
        content = {"url": url, "kind": kind, "title": title}
        return cast("Asset", self._api.post("/v1/assets", content, repeatable=True))

    def add_many(self, files: Sequence[Mapping[str, Any]]) -> Sequence[dict[str, Any]]:
        """Import up to 100 files; return for each, in order, its `asset` or why it was `refused`."""
        answer = self._api.post("/v1/assets/import", {"assets": [*files]}, repeatable=True)
        return cast("Sequence[dict[str, Any]]", answer["items"])

    def list(
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
        return cast("AssetPage", self._api.get(f"/v1/assets{filters}"))

    def get(self, asset_id: str) -> Asset:
        """Return an asset with new links."""
        return cast("Asset", self._api.get(route("assets", asset_id)))

    def retry(self, asset_id: str, *, force: bool = False) -> Asset:
        """Retry a missing copy and thumbnail now; `force` copies the file again."""
        return cast("Asset", self._api.post(route("assets", asset_id, "retry"), {"force": force}))

    def delete(self, asset_id: str) -> None:
        """Delete an uploaded or imported file. A result is deleted with its task."""
        self._api.send("DELETE", route("assets", asset_id), repeatable=False)


class Conversations:
    """The user's conversations."""

    def __init__(self, api: Api) -> None:
        self._api = api

    def delete(self, conversation_id: str) -> None:
        """Delete a conversation with its messages and its tasks, which must all have ended."""
        self._api.send("DELETE", route("conversations", conversation_id), repeatable=False)


class Webhooks:
    """The user's webhooks: addresses that receive events."""

    def __init__(self, api: Api) -> None:
        self._api = api

    def create(self, url: str, *, events: Sequence[str] = (), description: str = "") -> dict[str, Any]:
        """Create a webhook. Only this answer and that of `rotate` show a `secret`."""
        content = {"url": url, "events": [*events], "description": description}
        return cast("dict[str, Any]", self._api.post("/v1/webhooks", content))

    def list(self) -> Sequence[dict[str, Any]]:
        """Return all webhooks."""
        return cast("Sequence[dict[str, Any]]", (self._api.get("/v1/webhooks"))["webhooks"])

    def get(self, webhook_id: str) -> dict[str, Any]:
        """Return a webhook."""
        return cast("dict[str, Any]", self._api.get(route("webhooks", webhook_id)))

    def update(self, webhook_id: str, **changes: Any) -> dict[str, Any]:
        """Change a webhook's url, events or description, or enable or disable it."""
        headers = {"Content-Type": "application/json"}
        body = json.dumps(changes).encode()
        return cast("dict[str, Any]", self._api.send("PATCH", route("webhooks", webhook_id), body, headers))

    def delete(self, webhook_id: str) -> None:
        """Delete a webhook."""
        self._api.send("DELETE", route("webhooks", webhook_id), repeatable=False)

    def rotate(self, webhook_id: str) -> dict[str, Any]:
        """Create a new secret, shown once; for a day the old one signs as well."""
        return cast("dict[str, Any]", self._api.post(route("webhooks", webhook_id, "rotate")))

    def test(self, webhook_id: str) -> dict[str, Any]:
        """Send a test event."""
        return cast("dict[str, Any]", self._api.post(route("webhooks", webhook_id, "test")))

    def deliveries(self, webhook_id: str, **filters: Any) -> dict[str, Any]:
        """Return a page of deliveries, newest first."""
        return cast("dict[str, Any]", self._api.get(route("webhooks", webhook_id, "deliveries") + query(**filters)))

    def redeliver(self, webhook_id: str, delivery_id: str) -> dict[str, Any]:
        """Try a delivery now. One that has ended starts over with all its attempts."""
        path = route("webhooks", webhook_id, "deliveries", delivery_id, "redeliver")
        return cast("dict[str, Any]", self._api.post(path))
