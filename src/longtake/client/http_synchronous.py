"""Carries requests with nothing but the standard library, each on a connection of its own."""

from __future__ import annotations

import contextlib
import http.client
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from longtake.client.failures import ServerUnreachable
from longtake.client.wire import CONNECT_SECONDS, Reply, Request

if TYPE_CHECKING:
    from collections.abc import Iterator

PIECE_BYTES = 65_536


@dataclass
class Opened:
    """An answer whose body is still to come."""

    response: http.client.HTTPResponse

    @property
    def status(self) -> int:
        return self.response.status

    def header(self, name: str) -> str | None:
        """Return a header's value."""
        return self.response.getheader(name)

    def pieces(self) -> Iterator[bytes]:
        """Yield the body as it arrives."""
        with _clearly(sent=True):
            while piece := self.response.read1(PIECE_BYTES):
                yield piece

    def reply(self) -> Reply:
        """Read the rest."""
        headers = {name.lower(): value for name, value in self.response.getheaders()}
        with _clearly(sent=True):
            return Reply(self.response.status, headers, self.response.read())


class Transport:
    """Holds nothing between two requests, so that threads can share it."""

    @contextlib.contextmanager
    def open(self, request: Request) -> Iterator[Opened]:
        """Send, and yield the answer as soon as it begins."""
        address = urlsplit(request.url)
        kind = http.client.HTTPSConnection if address.scheme == "https" else http.client.HTTPConnection
        connection = kind(address.hostname or "", address.port, timeout=min(request.seconds, CONNECT_SECONDS))
        try:
            with _clearly(sent=False):
                connection.connect()
            connection.sock.settimeout(request.seconds)
            with _clearly(sent=True):
                target = request.url.partition("://")[2].partition("/")[2]
                connection.request(request.method, f"/{target}", request.body, dict(request.headers))
                response = connection.getresponse()
            with response:
                yield Opened(response)
        finally:
            connection.close()

    def send(self, request: Request) -> Reply:
        """Send, and return the whole answer."""
        with self.open(request) as opened:
            return opened.reply()

    def pause(self, seconds: float) -> None:
        """Wait."""
        time.sleep(seconds)

    def close(self) -> None:
        """Nothing is held."""


@contextlib.contextmanager
def _clearly(*, sent: bool) -> Iterator[None]:
    try:
        yield
    except TimeoutError as error:
        raise ServerUnreachable("The server did not answer in time.", sent=sent) from error
    except (OSError, http.client.HTTPException) as error:
        reason = getattr(error, "strerror", None) or str(error) or type(error).__name__
        raise ServerUnreachable(f"The server cannot be reached: {reason}.", sent=sent) from error
