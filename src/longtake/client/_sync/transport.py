"""HTTP with the standard library; each request has its own connection."""

from __future__ import annotations

import contextlib
import http.client
import time
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from longtake.client.errors import ServerUnreachable
from longtake.client.wire import CONNECT_SECONDS, Reply, Request

if TYPE_CHECKING:
    from collections.abc import Iterator

PIECE_BYTES = 65_536


class Response:
    """An answer whose body is not read yet; header names are in lower case."""

    def __init__(self, response: http.client.HTTPResponse) -> None:
        self._response = response
        self.status = response.status
        self.headers = {name.lower(): value for name, value in response.getheaders()}

    def pieces(self) -> Iterator[bytes]:
        """Yield the body as it arrives."""
        with _unreachable(sent=True):
            while piece := self._response.read1(PIECE_BYTES):
                yield piece

    def reply(self) -> Reply:
        with _unreachable(sent=True):
            return Reply(self.status, self.headers, self._response.read())


class Transport:
    """Keeps no state between requests, so threads can share it."""

    @contextlib.contextmanager
    def open(self, request: Request) -> Iterator[Response]:
        """Send a request; yield the answer as soon as it begins."""
        address = urlsplit(request.url)
        kind = http.client.HTTPSConnection if address.scheme == "https" else http.client.HTTPConnection
        connection = kind(address.hostname or "", address.port, timeout=min(request.seconds, CONNECT_SECONDS))
        try:
            with _unreachable(sent=False):
                connection.connect()
            connection.sock.settimeout(request.seconds)
            with _unreachable(sent=True):
                target = request.url.partition("://")[2].partition("/")[2]
                connection.request(request.method, f"/{target}", request.body, dict(request.headers))
                response = connection.getresponse()
            with response:
                yield Response(response)
        finally:
            connection.close()

    def send(self, request: Request) -> Reply:
        with self.open(request) as opened:
            return opened.reply()

    def pause(self, seconds: float) -> None:
        time.sleep(seconds)

    def close(self) -> None:
        """Do nothing: no connection is kept."""


@contextlib.contextmanager
def _unreachable(*, sent: bool) -> Iterator[None]:
    try:
        yield
    except TimeoutError as error:
        raise ServerUnreachable("The server did not answer in time.", sent=sent) from error
    except (OSError, http.client.HTTPException) as error:
        reason = getattr(error, "strerror", None) or str(error) or type(error).__name__
        raise ServerUnreachable(f"The server cannot be reached: {reason}.", sent=sent) from error
