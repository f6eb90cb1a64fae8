"""Made from asynchronous.py by scripts/make_client.py: do not change it here."""

from __future__ import annotations

import contextlib
import uuid
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Self, cast

from longtake.client.catalogue_synchronous import Catalogue
from longtake.client.event_stream import EventStream
from longtake.client.failures import DownloadFailed, LongtakeApiError, ServerUnreachable
from longtake.client.http_synchronous import Transport
from longtake.client.model_choice import choose_model
from longtake.client.part_file import PartFile, target_of
from longtake.client.patience import Patience
from longtake.client.resources_synchronous import (
    Assets,
    Caller,
    Conversations,
    Tasks,
    Webhooks,
)
from longtake.client.run_shapes import Run
from longtake.client.runs_synchronous import Runs
from longtake.client.shapes import Asset, Balance, Event, Me, Model, Snapshot, Task
from longtake.client.wire import FIRST_REFUSAL, Request, bytes_of, content_of, picture_type, query, route

if TYPE_CHECKING:
    import os
    from collections.abc import Generator, Mapping, Sequence
    from pathlib import Path
    from types import TracebackType

DEFAULT_SERVER = "http://127.0.0.1:8484"
#: Without a sign of life for so long (heartbeats come every 15 seconds) a stream is taken for dead.
SILENCE_SECONDS = 45.0
#: How long one look waits for a task where there is no stream of events.
LOOK_SECONDS = 2
#: What tells of the stream itself, and nothing that a caller has to hear, or not yet.
QUIET = {"heartbeat", "farewell", "reset"}
#: Whoever follows tasks asks again and again instead.
NO_STREAM = ("ROUTE_UNKNOWN", "STREAMS_TOO_MANY")
DOWNLOAD_ATTEMPTS = 3


class Client:
    """Everything one user can do. Calls that may be repeated are, while the server is away or asks to wait."""

    def __init__(self, server: str = DEFAULT_SERVER, token: str = "", *, patience_seconds: float = 30.0) -> None:
        self._transport = Transport()
        self._caller = Caller(self._transport, server, token, patience_seconds)
        self.tasks = Tasks(self._caller)
        self.assets = Assets(self._caller)
        self.runs = Runs(self._caller)
        self.catalogue = Catalogue(self._caller)
        self.conversations = Conversations(self._caller)
        self.webhooks = Webhooks(self._caller)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Let go of all connections."""
        self._transport.close()

    def generate(
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
        """Begin an image or a video, once, however often the request had to be sent; `wait` returns the ended task.

        Without a model the first one that can be used for this type and number of reference images is taken.
        """
        kind, name = type, model
        if kind is None or name is None:
            kind, name = choose_model(self.models(), type, model, len(references))
        body = {
            "model": name,
            "prompt": prompt,
            "parameters": dict(parameters or {}),
            "references": list(references),
            "conversation_id": conversation_id,
        }
        key = idempotency_key or str(uuid.uuid4())
        task = cast("Task", self._caller.post(route(f"{kind}s", "generate"), body, key=key))
        if wait:
            for state in self.follow(task["id"]):
                task = state
        return task

    def models(self) -> list[Model]:
        """Return what can be made."""
        return cast("list[Model]", (self._caller.get("/v1/models"))["models"])

    def me(self) -> Me:
        """Return who one is, and what one's token may do."""
        return cast("Me", self._caller.get("/v1/me"))

    def balance(self) -> Balance:
        """Return one's credits."""
        return cast("Balance", self._caller.get("/v1/credits"))

    def snapshot(self) -> Snapshot:
        """Return everything at one moment: unfinished and recent tasks, conversations, credits."""
        return cast("Snapshot", self._caller.get("/v1/snapshot"))

    def upload_reference(self, file: str | os.PathLike[str] | bytes) -> Asset:
        """Keep a reference image; its `id` goes into `references`."""
        content = bytes_of(file)
        headers = {"Content-Type": picture_type(content)}
        # Twice is two assets with the same picture: harmless, but not the same.
        return cast("Asset", self._caller.send("POST", "/v1/references", content, headers, repeatable=False))

    def events(self, cursor: str | None = None, *, types: Sequence[str] = ()) -> Generator[Event]:
        """Yield one's events after the cursor, or from now on, without end; a lost connection is taken up again.

        `ready` comes whenever a connection begins, `reset` before it when events were missed: then look anew.
        """
        return self._events(cursor, types)

    def _events(self, cursor: str | None, types: Sequence[str], hopeless: Sequence[str] = ()) -> Generator[Event]:
        patience = Patience(self._caller.patience_seconds)
        missed: Event | None = None
        while True:
            try:
                with contextlib.closing(self._connection(cursor, types)) as connection:
                    for event in connection:
                        patience.renew()
                        cursor = None if event.type == "reset" else event.cursor or cursor
                        if event.type == "reset":
                            missed = event
                        elif missed is not None:
                            # Only now: between a look before this moment and the stream something could get lost.
                            yield replace(missed, cursor=cursor)
                            missed = None
                        if event.type not in QUIET:
                            yield event
                # The server ended it, in order: another one may be there at once.
                failure: LongtakeApiError = ServerUnreachable("The stream has ended.", sent=False)
            except LongtakeApiError as error:
                if error.code in hopeless:
                    raise
                failure = error
            self._transport.pause(patience.pause(failure, repeatable=True))

    def _connection(self, cursor: str | None, types: Sequence[str]) -> Generator[Event]:
        headers = {"Accept": "text/event-stream"}
        if cursor is not None:
            headers["Last-Event-ID"] = cursor
        path = "/v1/events" + query(types=",".join(types) or None)
        request = self._caller.request("GET", path, headers=headers, seconds=SILENCE_SECONDS)
        with self._transport.open(request) as opened:
            if opened.status >= FIRST_REFUSAL:
                content_of(opened.reply())
            stream = EventStream()
            for piece in opened.pieces():
                yield from stream.feed(piece)

    def follow(self, *task_ids: str) -> Generator[Task]:
        """Yield each task now and whenever something about it changes; ends when all have ended."""
        waiting = set(task_ids)
        try:
            with contextlib.closing(self._events(None, ["task.*"], NO_STREAM)) as events:
                for event in events:
                    # When a connection begins, nobody knows what was missed before it.
                    concerned = waiting if event.type == "ready" else waiting & {event.subject}
                    for task_id in sorted(concerned):
                        task = self.tasks.get(task_id)
                        yield task
                        if task["ended_at"] is not None:
                            waiting = waiting - {task_id}
                    if not waiting:
                        return
        except LongtakeApiError as error:
            if error.code not in NO_STREAM:
                raise
        with contextlib.closing(self._look(waiting)) as looks:
            yield from looks

    def _look(self, waiting: set[str]) -> Generator[Task]:
        """Follow by asking again and again, where there is no stream."""
        seconds = 0
        while waiting:
            for task_id in sorted(waiting):
                task = self.tasks.get(task_id, wait=seconds)
                # Waiting for one of them is enough.
                seconds = 0
                yield task
                if task["ended_at"] is not None:
                    waiting = waiting - {task_id}
            seconds = LOOK_SECONDS

    def follow_run(self, run_id: str) -> Generator[Run]:
        """Yield a run now and whenever something about it changes; ends when nothing of it is under way."""
        try:
            with contextlib.closing(self._events(None, ["run.*", "scene.*"], NO_STREAM)) as events:
                for event in events:
                    if event.type == "ready" or event.subject == run_id:
                        run = self.runs.get(run_id)
                        yield run
                        if run["status"] != "generating":
                            return
        except LongtakeApiError as error:
            if error.code not in NO_STREAM:
                raise
        while True:
            run = self.runs.get(run_id)
            yield run
            if run["status"] != "generating":
                return
            self._transport.pause(LOOK_SECONDS)

    def download(self, result: Asset, path: str | os.PathLike[str]) -> Path:
        """Write a result to a file, or into a folder; it has its name only when it is whole. Nothing is replaced."""
        for attempt in range(1, DOWNLOAD_ATTEMPTS + 1):
            asset = self._ready(result["id"])
            try:
                return self._fetch(asset, target_of(asset, path))
            except (DownloadFailed, ServerUnreachable):
                if attempt == DOWNLOAD_ATTEMPTS:
                    raise
        raise AssertionError("unreachable")

    def _ready(self, asset_id: str) -> Asset:
        """Return the asset with a new link, as soon as it has one."""
        patience = Patience(self._caller.patience_seconds)
        while True:
            asset = cast("Asset", self._caller.get(route("assets", asset_id)))
            if asset["url"] is not None:
                return asset
            gone = DownloadFailed(f"The file of {asset_id} cannot be had: its copy is {asset['save_state']}.")
            if asset["save_state"] != "pending":
                raise gone
            gone.status, gone.retry_after = 503, 0.0
            self._transport.pause(patience.pause(gone, repeatable=True))

    def _fetch(self, asset: Asset, target: Path) -> Path:
        # The link is enough; the token is for the server alone, and the file may be elsewhere.
        request = Request("GET", self._caller.absolute(asset["url"] or ""))
        with self._transport.open(request) as opened:
            if opened.status >= FIRST_REFUSAL:
                raise DownloadFailed(f"The file of {asset['id']} was not handed out (status {opened.status}).")
            with PartFile(target) as file:
                for piece in opened.pieces():
                    file.write(piece)
                return file.keep(asset, opened.header("Content-Length"))
