"""A client that asks for a stream and never reads: it is dropped, and others get every event."""

from __future__ import annotations

import socket
from contextlib import contextmanager
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import psycopg

from tests.api.stage import Api, place_for, token
from tests.live.stage import browsing
from tests.live.test_over_http import ended_streams, given
from tests.wait import wait_for

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.service.processes import Server

FLOOD = """
INSERT INTO events (type, subject, user_id, data)
SELECT 'flood', n::text, 'ann', to_jsonb(repeat('x', 4000)) FROM generate_series(1, 100) AS n
"""


def test_a_client_that_takes_nothing_is_dropped_and_others_are_not(postgresql_url: str, tmp_path: Path) -> None:
    place = place_for(tmp_path, postgresql_url)
    with place.server("--no-worker") as server, stuck_client(server), browsing(server) as browser:
        api = Api(place, server)
        browser.until("ready")
        # More than all buffers between the two hold; whoever reads gets every one of them.
        with psycopg.connect(postgresql_url) as writer:
            for _ in range(60):
                writer.execute(FLOOD)
                writer.commit()
                for _ in range(100):
                    browser.until("flood")
        wait_for(lambda: ended_streams(api) == 1, "the end of the stream that nobody takes")
        api.grant("ann", 1)
        assert given(browser, 1) == [1]


@contextmanager
def stuck_client(server: Server) -> Iterator[None]:
    """Ask for a stream, and never take a byte of it."""
    address = urlsplit(server.url)
    with socket.socket() as stuck:
        stuck.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        stuck.connect((address.hostname, address.port))
        request = f"GET /v1/events HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {token('ann')}\r\n\r\n"
        stuck.sendall(request.encode())
        yield
