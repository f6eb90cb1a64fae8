"""Made from resources_asynchronous.py by scripts/make_client.py: do not change it here."""

from __future__ import annotations

import json
import uuid
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import urljoin

from longtake.client.failures import LongtakeApiError
from longtake.client.patience import Patience
from longtake.client.shapes import Asset, AssetPage, Task, TaskPage
from longtake.client.wire import LIMIT_SECONDS, Request, checked_token, content_of, query, route, server_address

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from longtake.client.http_synchronous import Transport


class Caller:
    """Sends requests as one user, and repeats those that may be repeated."""

    def __init__(self, transport: Transport, server: str, token: str, patience_seconds: float) -> None:
        self._transport = transport
        self._server = server_address(server)
        self._token = checked_token(token)
        self.patience_seconds = patience_seconds

    def get(self, path: str, headers: Mapping[str, str] | None = None, seconds: float = LIMIT_SECONDS) -> Any:
        """Read something."""
        return self.send("GET", path, headers=headers, seconds=seconds)

    def post(self, path: str, content: Any = None, *, key: str | None = None) -> Any:
        """Do something; with a key it is done once, however often it is sent."""
        headers = {"Content-Type": "application/json"} | ({} if key is None else {"Idempotency-Key": key})
        body = None if content is None else json.dumps(content).encode()
        return self.send("POST", path, body, headers, repeatable=key is not None)

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
        """Send until there is an answer, or patience ends."""
        request = self.request(method, path, body, headers, repeatable=repeatable, seconds=seconds)
        patience = Patience(self.patience_seconds)
        while True:
            try:
                return content_of(self._transport.send(request))
            except LongtakeApiError as error:
                pause = patience.pause(error, repeatable=request.repeatable)
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
        """Return a request of this user."""
        known = {"Authorization": f"Bearer {self._token}", **(headers or {})}
        return Request(method, self._server + path, known, body, repeatable, seconds)

    def absolute(self, url: str) -> str:
        """Return a link as it can be opened from here."""
        return urljoin(self._server + "/", url)


class Tasks:
    """One's tasks."""

    def __init__(self, caller: Caller) -> None:
        self._caller = caller

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
        wanted = query(
            status=[*status], type=type, model=model, conversation_id=conversation_id, before=before, limit=limit
        )
        return cast("TaskPage", self._caller.get(f"/v1/tasks{wanted}"))

    def pending(self) -> Sequence[Task]:
        """Return all unfinished tasks, oldest first."""
        return cast("Sequence[Task]", (self._caller.get("/v1/tasks/pending"))["tasks"])

    def get(self, task_id: str, *, wait: int = 0) -> Task:
        """Return a task, at once or when it has ended, at most after `wait` seconds (up to 60)."""
        headers = {"Prefer": f"wait={wait}"} if wait else {}
        found = self._caller.get(route("tasks", task_id), headers, LIMIT_SECONDS + wait)
        return cast("Task", found)

    def cancel(self, task_id: str) -> Task:
        """End a task now; its credits come back."""
        # Cancelling twice changes nothing.
        return cast("Task", self._caller.send("POST", route("tasks", task_id, "cancel")))

    def retry(self, task_id: str, *, idempotency_key: str | None = None) -> Task:
        """Make a new task of one that failed or was cancelled."""
        key = idempotency_key or str(uuid.uuid4())
        return cast("Task", self._caller.post(route("tasks", task_id, "retry"), key=key))

    def delete(self, task_id: str) -> None:
        """Delete a task that has ended, with its messages, its results and their files."""
        self._caller.send("DELETE", route("tasks", task_id), repeatable=False)


class Assets:
    """One's media files: results, reference images, and what one brings in."""

    def __init__(self, caller: Caller) -> None:
        self._caller = caller

    def add(self, url: str, *, kind: str | None = None, title: str | None = None) -> Asset:
        """Bring in a file by its address; the same address again is the same asset."""
        content = json.dumps({"url": url, "kind": kind, "title": title}).encode()
        headers = {"Content-Type": "application/json"}
        return cast("Asset", self._caller.send("POST", "/v1/assets", content, headers))

    def add_many(self, files: Sequence[Mapping[str, Any]]) -> Sequence[dict[str, Any]]:
        """Bring in up to 100 files; return for each, in order, its `asset`, or why it was `refused`."""
        content = json.dumps({"assets": [*files]}).encode()
        headers = {"Content-Type": "application/json"}
        answer = self._caller.send("POST", "/v1/assets/import", content, headers)
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
        wanted = query(role=role, kind=kind, state=state, before=before, limit=limit)
        return cast("AssetPage", self._caller.get(f"/v1/assets{wanted}"))

    def get(self, asset_id: str) -> Asset:
        """Return one, with new links."""
        return cast("Asset", self._caller.get(route("assets", asset_id)))

    def retry(self, asset_id: str, *, force: bool = False) -> Asset:
        """Try at once what is missing of copy and thumbnail; `force` copies the file again."""
        return cast("Asset", self._caller.post(route("assets", asset_id, "retry"), {"force": force}))

    def delete(self, asset_id: str) -> None:
        """Delete something that one uploaded or brought in, with its files; a result goes with its task."""
        self._caller.send("DELETE", route("assets", asset_id), repeatable=False)


class Conversations:
    """One's conversations."""

    def __init__(self, caller: Caller) -> None:
        self._caller = caller

    def delete(self, conversation_id: str) -> None:
        """Delete a conversation with its messages and its tasks, which must all have ended."""
        self._caller.send("DELETE", route("conversations", conversation_id), repeatable=False)


class Webhooks:
    """One's webhooks: addresses that are told of events."""

    def __init__(self, caller: Caller) -> None:
        self._caller = caller

    def create(self, url: str, *, events: Sequence[str] = (), description: str = "") -> dict[str, Any]:
        """Make one; the answer is the only one that shows its `secret`."""
        content = {"url": url, "events": [*events], "description": description}
        return cast("dict[str, Any]", self._caller.post("/v1/webhooks", content))

    def list(self) -> Sequence[dict[str, Any]]:
        """Return all of them."""
        return cast("Sequence[dict[str, Any]]", (self._caller.get("/v1/webhooks"))["webhooks"])

    def get(self, webhook_id: str) -> dict[str, Any]:
        """Return one."""
        return cast("dict[str, Any]", self._caller.get(route("webhooks", webhook_id)))

    def update(self, webhook_id: str, **changes: Any) -> dict[str, Any]:
        """Change its url, events, description, or whether it is enabled."""
        headers = {"Content-Type": "application/json"}
        body = json.dumps(changes).encode()
        return cast("dict[str, Any]", self._caller.send("PATCH", route("webhooks", webhook_id), body, headers))

    def delete(self, webhook_id: str) -> None:
        """Remove one."""
        self._caller.send("DELETE", route("webhooks", webhook_id), repeatable=False)

    def rotate(self, webhook_id: str) -> dict[str, Any]:
        """Give it a new secret, shown once; the old one signs as well for a day."""
        return cast("dict[str, Any]", self._caller.post(route("webhooks", webhook_id, "rotate")))

    def test(self, webhook_id: str) -> dict[str, Any]:
        """Send it an event to try it."""
        return cast("dict[str, Any]", self._caller.post(route("webhooks", webhook_id, "test")))

    def deliveries(self, webhook_id: str, **wanted: Any) -> dict[str, Any]:
        """Return a page of what was sent to it, newest first."""
        return cast("dict[str, Any]", self._caller.get(route("webhooks", webhook_id, "deliveries") + query(**wanted)))

    def redeliver(self, webhook_id: str, delivery_id: str) -> dict[str, Any]:
        """Try a delivery now: one that has ended with all its tries again, one that waits the sooner."""
        path = route("webhooks", webhook_id, "deliveries", delivery_id, "redeliver")
        return cast("dict[str, Any]", self._caller.post(path))
