"""What a client does on the wire, byte by byte and without following anything by itself."""

from __future__ import annotations

import http.client
import json
import threading
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from tests.wait import wait_for

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from tests.sandbox_process import SandboxProcess

JOBS = "/api/v1/jobs"
IMAGE = "nano-banana-pro"


@dataclass
class Answer:
    """What came back."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


def ask(
    method: str, url: str, body: Any = None, headers: Mapping[str, str] | None = None, seconds: float = 10
) -> Answer:
    """Make one request on a connection of its own."""
    address = urlsplit(url)
    connection = http.client.HTTPConnection(address.hostname or "", address.port, timeout=seconds)
    try:
        content = body if isinstance(body, bytes) or body is None else json.dumps(body).encode()
        connection.request(method, f"{address.path}?{address.query}", content, dict(headers or {}))
        response = connection.getresponse()
        names = {name.lower(): value for name, value in response.getheaders()}
        return Answer(response.status, names, response.read())
    finally:
        connection.close()


@dataclass
class Kie:
    """A client of KIE's API, with a key."""

    sandbox: SandboxProcess
    key: str | None = None

    def ask(self, method: str, path: str, body: Any = None, seconds: float = 10) -> Answer:
        headers = {"Authorization": f"Bearer {self.key or self.sandbox.key}"}
        return ask(method, self.sandbox.kie_url + path, body, headers, seconds)

    def create(self, prompt: str, model: str = IMAGE, callback: str = "", **given: Any) -> str:
        """Submit a task that is accepted; return its id."""
        body = {"model": model, "input": {"prompt": prompt, **given}}
        answer = self.ask("POST", f"{JOBS}/createTask", body | ({"callBackUrl": callback} if callback else {}))
        assert answer.json["code"] == 200, answer.json
        identity: str = answer.json["data"]["taskId"]
        return identity

    def record(self, task: str) -> Any:
        """Query a task."""
        return self.ask("GET", f"{JOBS}/recordInfo?taskId={task}").json["data"]

    def end(self, task: str) -> Any:
        """Query until the task has ended; return what it tells then."""
        return wait_for(lambda: _ended(self.record(task)), f"the end of {task}")

    def result_url(self, task: str) -> str:
        """Return the address of a task's result, once it is there."""
        url: str = json.loads(self.end(task)["resultJson"])["resultUrls"][0]
        return url


def _ended(record: Any) -> Any:
    return record if record["state"] in {"success", "fail"} else None


@dataclass
class Receiver:
    """A server that notes what it gets, and answers with the next of its statuses (the last one from then on)."""

    url: str = ""
    statuses: list[int] = field(default_factory=lambda: [200])
    #: What a GET answers with.
    content: bytes = b""
    got: list[tuple[str, Mapping[str, str], bytes]] = field(default_factory=list)

    def next_status(self) -> int:
        return self.statuses.pop(0) if len(self.statuses) > 1 else self.statuses[0]


@contextmanager
def receiver() -> Iterator[Receiver]:
    """Run a receiver on a free port."""
    told = Receiver()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self._take()

        def do_GET(self) -> None:
            self._take()

        def _take(self) -> None:
            content = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            told.got.append((self.path, dict(self.headers.items()), content))
            self.send_response(told.next_status())
            self.send_header("Content-Length", str(len(told.content)))
            self.end_headers()
            self.wfile.write(told.content)

        def log_message(self, format: str, *arguments: object) -> None:  # noqa: A002 - the base class names it so
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    told.url = f"http://127.0.0.1:{server.server_address[1]}"
    try:
        yield told
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
