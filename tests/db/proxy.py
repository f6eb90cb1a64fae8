"""Stands between a program and PostgreSQL, and cuts the connection at the worst moment: during COMMIT."""

from __future__ import annotations

import contextlib
import socket
import threading
from enum import Enum
from typing import TYPE_CHECKING
from urllib.parse import parse_qs, urlsplit

from tests.wait import PATIENCE_SECONDS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

COMMIT = b"COMMIT\x00"
ASKED = b"pg_xact_status"


class Cut(Enum):
    """What becomes of the next COMMIT that passes."""

    BEFORE = "it never reaches the server"
    AFTER = "the server commits, its answer is lost"
    LATE = "the server commits only after somebody asked what became of it"


class CuttingProxy:
    """Passes bytes both ways; ``cut`` is done once, to the next COMMIT."""

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        self._folder = parse_qs(parts.query)["host"][0]
        self._listener = socket.create_server(("127.0.0.1", 0))
        port = self._listener.getsockname()[1]
        self.url = f"postgresql://{parts.username}@127.0.0.1:{port}{parts.path}"
        self.cut: Cut | None = None
        self.asked = threading.Event()
        self._sockets: list[socket.socket] = []
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        for one in [self._listener, *self._sockets]:
            _shut(one)

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _address = self._listener.accept()
                server = socket.socket(socket.AF_UNIX)
                server.connect(f"{self._folder}/.s.PGSQL.5432")
                self._sockets += [client, server]
                answers = _Answers()
                for pump in (self._up, self._down):
                    threading.Thread(target=_until_closed, args=(pump, client, server, answers), daemon=True).start()

    def _up(self, client: socket.socket, server: socket.socket, answers: _Answers) -> None:
        for chunk in _chunks(client):
            if ASKED in chunk:
                self.asked.set()
            if COMMIT in chunk and self.cut is not None:
                cut, self.cut = self.cut, None
                answers.lost = True
                if cut is Cut.LATE:
                    _shut(client)
                    self.asked.wait(PATIENCE_SECONDS)
                if cut is not Cut.BEFORE:
                    server.sendall(chunk)
                    answers.arrived.wait(PATIENCE_SECONDS)
                break
            server.sendall(chunk)

    @staticmethod
    def _down(client: socket.socket, server: socket.socket, answers: _Answers) -> None:
        for chunk in _chunks(server):
            if answers.lost:
                answers.arrived.set()
            else:
                client.sendall(chunk)


class _Answers:
    """What one connection's server said after the cut."""

    def __init__(self) -> None:
        self.lost = False
        self.arrived = threading.Event()


def _until_closed(
    pump: Callable[[socket.socket, socket.socket, _Answers], None],
    client: socket.socket,
    server: socket.socket,
    answers: _Answers,
) -> None:
    with contextlib.suppress(OSError):
        pump(client, server, answers)
    _shut(client)
    _shut(server)


def _chunks(source: socket.socket) -> Iterator[bytes]:
    while chunk := source.recv(65536):
        yield chunk


def _shut(one: socket.socket) -> None:
    with contextlib.suppress(OSError):
        one.shutdown(socket.SHUT_RDWR)
    one.close()
