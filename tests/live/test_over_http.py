"""The stream as a browser meets it: real servers, and connections that break."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from tests.api.stage import Api, assert_problem, place_for
from tests.live.stage import browsing
from tests.wait import wait_for

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.live.stage import Browser


@pytest.fixture
def api(database_url: str, tmp_path: Path) -> Iterator[Api]:
    """A server on either database; few streams are allowed."""
    place = place_for(tmp_path, database_url, streams_per_user="3")
    with place.server_here(with_worker=False) as server:
        yield Api(place, server)


def given(browser: Browser, many: int) -> list[int]:
    """Return the amounts of the next grants."""
    return [browser.until("credits.changed").data["data"]["amount"] for _ in range(many)]


def ended_streams(api: Api) -> int:
    """Return how many streams have ended: each leaves a line in the log then."""
    lines = [json.loads(line) for line in api.server.log.read_text().splitlines()]
    return sum(1 for line in lines if line.get("path") == "/v1/events")


def test_what_happens_is_told_and_a_broken_connection_goes_on_where_it_was(api: Api) -> None:
    with browsing(api.server) as browser:
        assert browser.response.status == 200
        assert browser.response.headers["content-type"].startswith("text/event-stream")
        assert browser.response.headers["cache-control"] == "no-store"
        assert browser.response.headers["x-accel-buffering"] == "no"
        ready = browser.frame()
        assert ready is not None
        assert (ready.event, ready.data) == ("ready", {"cursor": ready.id})
        api.grant("ann", 1)
        api.grant("bob", 100)
        frame = browser.until("credits.changed")
        assert frame.data["cursor"] == frame.id
        assert frame.data["type"] == "credits.changed"
        assert frame.data["at"].endswith("Z")
    api.grant("ann", 2)
    with browsing(api.server, headers={"Last-Event-ID": str(frame.id)}) as browser:
        assert given(browser, 1) == [2]
        api.grant("ann", 3)
        assert given(browser, 1) == [3]
    with browsing(api.server, f"/v1/events?cursor={ready.id}&types=credits.*") as browser:
        assert given(browser, 3) == [1, 2, 3]
    # The header is newer than the address a page was opened with.
    with browsing(api.server, f"/v1/events?cursor={ready.id}", headers={"Last-Event-ID": str(frame.id)}) as browser:
        assert given(browser, 2) == [2, 3]


def test_what_cannot_be_followed_is_refused_before_the_stream_begins(api: Api) -> None:
    for word in ("x", "5", "1.2.3", "-1.0"):
        assert_problem(api.ask("GET", f"/v1/events?cursor={word}"), 422, "CURSOR_INVALID")
        assert_problem(api.ask("GET", "/v1/events", headers={"Last-Event-ID": word}), 422, "CURSOR_INVALID")
    for types in ("task.*x", "Task", "task.*,,key.*", "task.*,tusk.*", "task.compleated"):
        answer = api.ask("GET", f"/v1/events?types={types}")
        assert_problem(answer, 422, "REQUEST_INVALID")
        assert "task.completed" in answer.json["detail"]
    assert_problem(api.ask("GET", "/v1/events", user=None), 401, "UNAUTHORIZED")
    assert_problem(api.ask("POST", "/v1/events"), 405, "METHOD_NOT_ALLOWED")
    with browsing(api.server, "/v1/events?cursor=999999999999.0") as browser:
        reset = browser.until("reset")
        assert reset.data == {"reason": "EVENTS_FORGOTTEN"}
        assert browser.frame() is None


def test_a_stream_too_many_is_refused_and_those_who_left_do_not_count(api: Api) -> None:
    with browsing(api.server), browsing(api.server), browsing(api.server):
        with browsing(api.server, user="bob") as other:
            assert other.response.status == 200
        refused = api.ask("GET", "/v1/events", user="ann")
        assert_problem(refused, 429, "STREAMS_TOO_MANY")
        assert refused.headers["retry-after"] == "5"

    def one_is_let_in() -> bool:
        with browsing(api.server) as browser:
            return bool(browser.response.status == 200)

    wait_for(one_is_let_in, "the end of streams whose clients are gone")


def test_each_stream_leaves_one_line_in_the_log_and_no_trouble(api: Api) -> None:
    for _ in range(3):
        with browsing(api.server) as browser:
            browser.until("ready")
    wait_for(lambda: ended_streams(api) == 3, "the lines of three streams")
    lines: list[dict[str, Any]] = [json.loads(line) for line in api.server.log.read_text().splitlines()]
    assert [line for line in lines if line["level"] == "error"] == []
    assert {line["status"] for line in lines if line.get("path") == "/v1/events"} == {200}
