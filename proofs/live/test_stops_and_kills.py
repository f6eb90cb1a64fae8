"""Streams of servers that stop or are killed, and of several servers on one database."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.api.stage import Api, place_for
from tests.live.stage import browsing
from tests.live.test_over_http import given

if TYPE_CHECKING:
    from pathlib import Path

    from tests.live.stage import Frame


def test_a_server_that_stops_says_farewell_and_waits_for_nobody(database_url: str, tmp_path: Path) -> None:
    place = place_for(tmp_path, database_url)
    with place.server("--no-worker") as server, browsing(server) as one, browsing(server, user="bob") as other:
        assert one.frame()
        assert other.frame()
        assert server.stop() == 0
        assert "graceful shutdown exceeded" not in server.log.read_text()
        for browser in (one, other):
            assert browser.until("farewell").data == {"reason": "SERVER_STOPPING"}
            assert browser.frame() is None


def test_who_was_connected_to_a_killed_server_goes_on_at_the_next(database_url: str, tmp_path: Path) -> None:
    place = place_for(tmp_path, database_url)
    with place.server("--no-worker") as server:
        api = Api(place, server)
        with browsing(server) as browser:
            browser.until("ready")
            api.grant("ann", 1)
            seen: Frame = browser.until("credits.changed")
            api.grant("ann", 2)
            server.process.kill()
            server.process.wait(10)
    with place.server("--no-worker") as server:
        api = Api(place, server)
        with browsing(server, headers={"Last-Event-ID": str(seen.id)}) as browser:
            assert given(browser, 1) == [2]
            api.grant("ann", 3)
            assert given(browser, 1) == [3]


def test_what_one_server_writes_is_read_at_another(postgresql_url: str, tmp_path: Path) -> None:
    folders = [tmp_path / "a", tmp_path / "b"]
    for folder in folders:
        folder.mkdir()
    places = [place_for(folder, postgresql_url) for folder in folders]
    with places[0].server("--no-worker") as writing, places[1].server("--no-worker") as reading:
        writer = Api(places[0], writing)
        with browsing(reading) as browser:
            ready = browser.until("ready")
            for amount in range(1, 6):
                writer.grant("ann", amount)
            assert given(browser, 5) == [1, 2, 3, 4, 5]
        # A cursor of one server is good at every other.
        with browsing(writing, f"/v1/events?cursor={ready.id}") as browser:
            assert given(browser, 5) == [1, 2, 3, 4, 5]
