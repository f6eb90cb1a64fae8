"""A real HTTP server that answers as it was told, one step for each request, and remembers what it was asked."""

from __future__ import annotations

import json
import socket
import threading
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping


@dataclass(frozen=True)
class Step:
    """One answer; `announced` is a Content-Length that need not be true, `hang_up` sends nothing at all."""

    status: int = 200
    content: Any = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)
    announced: int | None = None
    hang_up: bool = False


@dataclass
class Scripted:
    """What is to be answered by path, in turn (the last step again and again), and what was asked."""

    url: str = ""
    steps: dict[str, list[Step]] = field(default_factory=dict)
    asked: list[tuple[str, str, dict[str, str], bytes]] = field(default_factory=list)

    def times(self, path: str) -> int:
        return sum(one[1].partition("?")[0] == path for one in self.asked)

    def headers(self, path: str) -> list[dict[str, str]]:
        return [one[2] for one in self.asked if one[1].partition("?")[0] == path]


@contextmanager
def scripted() -> Iterator[Scripted]:
    """Run such a server until the block ends."""
    script = Scripted()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            names = {name.lower(): value for name, value in self.headers.items()}
            script.asked.append((self.command, self.path, names, body))
            steps = script.steps.get(self.path.partition("?")[0], [Step(404, problem(404, "ROUTE_UNKNOWN"))])
            step = steps.pop(0) if len(steps) > 1 else steps[0]
            if step.hang_up:
                self.connection.shutdown(socket.SHUT_RDWR)
                return
            content = step.content if isinstance(step.content, bytes) else json.dumps(step.content).encode()
            self.send_response(step.status)
            for name, value in step.headers.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(content) if step.announced is None else step.announced))
            self.end_headers()
            self.wfile.write(content)

        do_POST = do_GET  # noqa: N815 - what the library calls

        def log_message(self, *_arguments: Any) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    script.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield script
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def problem(status: int, code: str, **members: Any) -> dict[str, Any]:
    """A problem as Longtake sends it."""
    return {"type": "about:blank", "status": status, "code": code, "detail": "No.", "request_id": "r-1", **members}
