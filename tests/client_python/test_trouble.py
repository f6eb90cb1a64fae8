"""A server that is away, busy, forgetful or not Longtake at all: both clients, the same cases."""

from __future__ import annotations

import contextlib
import json
import socket
from typing import TYPE_CHECKING, Any

import pytest

from longtake.client import DownloadFailed, LongtakeApiError, ServerUnreachable
from longtake.client._async.transport import AsyncTransport
from longtake.client._sync.transport import Transport
from longtake.client.wire import Request
from tests.client_python.scripted import Scripted, Step, problem
from tests.client_python.stage import CLIENTS, TOKEN, done, every, first, names

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable
    from pathlib import Path

BALANCE = {"available": 5, "held": 1}
TASK: dict[str, Any] = {"id": "t-1", "status": "running", "ended_at": None, "progress": None, "results": []}
ENDED = {**TASK, "status": "completed", "ended_at": "2026-01-01T12:00:00Z"}
NO_ROUTE = Step(404, problem(404, "ROUTE_UNKNOWN"))
TOO_MANY = Step(429, problem(429, "STREAMS_TOO_MANY"), {"Retry-After": "1"})


def frames(*events: tuple[str, dict[str, Any]]) -> Step:
    lines = "".join(f"event: {kind}\ndata: {json.dumps(content)}\n\n" for kind, content in events)
    return Step(content=lines.encode(), headers={"Content-Type": "text/event-stream"})


async def test_reading_is_repeated_until_the_server_is_back(script: Scripted, make_client: Callable[..., Any]) -> None:
    busy = Step(503, problem(503, "DATABASE_UNAVAILABLE"), {"Retry-After": "0"})
    script.steps["/v1/credits"] = [Step(hang_up=True), busy, Step(content=BALANCE)]
    assert await done(make_client(script.url).balance()) == BALANCE
    assert script.times("/v1/credits") == 3
    assert script.headers("/v1/credits")[0]["authorization"] == f"Bearer {TOKEN}"


@pytest.mark.parametrize("status", [502, 503, 504])
async def test_a_proxy_without_its_server_is_a_server_that_is_away(
    script: Scripted, make_client: Callable[..., Any], status: int
) -> None:
    script.steps["/v1/credits"] = [Step(status, b"<html>"), Step(content=BALANCE)]
    assert await done(make_client(script.url).balance()) == BALANCE
    script.steps["/v1/webhooks"] = [Step(status, b"<html>"), Step(201, {})]
    with pytest.raises(ServerUnreachable, match=str(status)):
        await done(make_client(script.url).webhooks.create("https://example.com"))
    assert script.times("/v1/webhooks") == 1


async def test_an_odd_id_is_part_of_the_path_and_nothing_else(
    script: Scripted, make_client: Callable[..., Any]
) -> None:
    with pytest.raises(LongtakeApiError, match="ROUTE_UNKNOWN"):
        await done(make_client(script.url).tasks.get("a b/../c?d#é\n"))
    assert [one[1] for one in script.asked] == ["/v1/tasks/a%20b%2F..%2Fc%3Fd%23%C3%A9%0A"]


@pytest.mark.parametrize("token", ["secret\n", "secr\u20act", "secret word"])
def test_what_cannot_be_a_token_is_refused_without_repeating_it(token: str) -> None:
    for kind in CLIENTS.values():
        with pytest.raises(ValueError, match="token") as raised:
            kind("http://127.0.0.1:9", token)
        assert "sec" not in str(raised.value)


async def test_a_task_is_sent_again_with_the_same_key(script: Scripted, make_client: Callable[..., Any]) -> None:
    in_use = Step(409, problem(409, "IDEMPOTENCY_KEY_IN_USE"))
    script.steps["/v1/images/generate"] = [Step(hang_up=True), in_use, Step(202, TASK)]
    task = await done(make_client(script.url).generate("a fox", type="image", model="m"))
    assert task == TASK
    keys = [headers["idempotency-key"] for headers in script.headers("/v1/images/generate")]
    assert (len(keys), len(set(keys))) == (3, 1)


async def test_what_must_not_be_done_twice_is_not_repeated(script: Scripted, make_client: Callable[..., Any]) -> None:
    script.steps["/v1/webhooks"] = [Step(hang_up=True), Step(201, {})]
    with pytest.raises(ServerUnreachable) as raised:
        await done(make_client(script.url).webhooks.create("https://example.com"))
    assert (raised.value.sent, script.times("/v1/webhooks")) == (True, 1)


async def test_a_refusal_is_an_error_with_all_that_the_server_said(
    script: Scripted, make_client: Callable[..., Any]
) -> None:
    script.steps["/v1/credits"] = [Step(402, problem(402, "INSUFFICIENT_CREDITS", hint="Ask for some.", price=4))]
    with pytest.raises(LongtakeApiError) as raised:
        await done(make_client(script.url).balance())
    error = raised.value
    assert (error.status, error.code, error.message) == (402, "INSUFFICIENT_CREDITS", "No.")
    assert (error.hint, error.request_id, error.facts["price"]) == ("Ask for some.", "r-1", 4)
    assert script.times("/v1/credits") == 1


@pytest.mark.parametrize("step", [Step(200, b"<html>"), Step(500, b"<html>"), Step(404, {"what": 1}), Step(301, {})])
async def test_what_is_not_longtake_is_said(script: Scripted, make_client: Callable[..., Any], step: Step) -> None:
    script.steps["/v1/credits"] = [step]
    with pytest.raises(LongtakeApiError, match="is not from a Longtake server"):
        await done(make_client(script.url).balance())


async def test_a_redirect_is_not_followed_with_the_token(script: Scripted, make_client: Callable[..., Any]) -> None:
    script.steps["/v1/credits"] = [Step(307, {}, {"Location": f"{script.url}/elsewhere"})]
    with pytest.raises(LongtakeApiError):
        await done(make_client(script.url).balance())
    assert script.times("/elsewhere") == 0


async def test_a_server_that_stays_away_is_given_up(make_client: Callable[..., Any]) -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{unused.getsockname()[1]}"
        with pytest.raises(ServerUnreachable) as raised:
            await done(make_client(url, patience_seconds=0.3).balance())
    assert (raised.value.sent, raised.value.code) == (False, "SERVER_UNREACHABLE")


@pytest.fixture(params=[Transport, AsyncTransport])
async def transport(request: pytest.FixtureRequest) -> AsyncIterator[Any]:
    made = request.param()
    yield made
    await done(made.close())


async def test_a_request_without_an_answer_in_time_may_have_arrived(transport: Any) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        with pytest.raises(ServerUnreachable, match="in time") as raised:
            await done(transport.send(Request("POST", f"http://127.0.0.1:{silent.getsockname()[1]}/", seconds=0.1)))
        accepted, _address = silent.accept()
        with accepted:
            assert accepted.recv(4) == b"POST"
    assert raised.value.sent


async def test_without_a_connection_in_time_nothing_was_sent(transport: Any) -> None:
    with socket.socket() as full, contextlib.ExitStack() as stack:
        full.bind(("127.0.0.1", 0))
        full.listen(0)
        # Whoever comes once these wait is not let in, and not refused either.
        for waiting in (stack.enter_context(socket.socket()) for _count in range(8)):
            waiting.setblocking(False)
            waiting.connect_ex(full.getsockname())
        with pytest.raises(ServerUnreachable, match="in time") as raised:
            await done(transport.send(Request("POST", f"http://127.0.0.1:{full.getsockname()[1]}/", seconds=0.1)))
    assert not raised.value.sent


async def test_a_lost_stream_goes_on_where_it_was(script: Scripted, make_client: Callable[..., Any]) -> None:
    begin = frames(("ready", {"cursor": "0.1"}), ("task.running", {"cursor": "0.2", "subject": "t-1", "data": {}}))
    script.steps["/v1/events"] = [
        begin,
        frames(("ready", {"cursor": "0.2"}), ("heartbeat", {"cursor": "0.7"}), ("farewell", {"reason": "x"})),
        frames(("ready", {"cursor": "0.7"}), ("task.completed", {"cursor": "0.8", "subject": "t-1", "data": {}})),
    ]
    events = await first(make_client(script.url).events("0.1"), 5)
    assert [event.type for event in events] == ["ready", "task.running", "ready", "ready", "task.completed"]
    assert [headers.get("last-event-id") for headers in script.headers("/v1/events")] == ["0.1", "0.2", "0.7"]


async def test_after_a_reset_the_stream_begins_anew(script: Scripted, make_client: Callable[..., Any]) -> None:
    script.steps["/v1/events"] = [
        frames(("reset", {"reason": "x"})),
        Step(hang_up=True),
        frames(("ready", {"cursor": "0.9"})),
    ]
    # The new stream has begun before anybody is told to look anew: nothing falls between that look and the stream.
    (reset,) = await first(make_client(script.url).events("0.1"), 1)
    assert (reset.type, reset.cursor, reset.data) == ("reset", "0.9", {"reason": "x"})
    assert [headers.get("last-event-id") for headers in script.headers("/v1/events")] == ["0.1", None, None]


async def test_a_reset_is_told_once(script: Scripted, make_client: Callable[..., Any]) -> None:
    script.steps["/v1/events"] = [frames(("reset", {"reason": "x"})), frames(("ready", {"cursor": "0.9"}))]
    events = await first(make_client(script.url).events("0.1"), 3)
    assert [event.type for event in events] == ["reset", "ready", "ready"]
    assert [headers.get("last-event-id") for headers in script.headers("/v1/events")] == ["0.1", None, "0.9"]


async def test_a_token_that_ended_ends_the_stream(script: Scripted, make_client: Callable[..., Any]) -> None:
    script.steps["/v1/events"] = [
        frames(("ready", {"cursor": "0.1"}), ("farewell", {"reason": "UNAUTHORIZED"})),
        Step(401, problem(401, "UNAUTHORIZED")),
    ]
    with pytest.raises(LongtakeApiError) as raised:
        await every(make_client(script.url).events())
    assert raised.value.status == 401


async def test_a_task_is_followed_by_events(script: Scripted, make_client: Callable[..., Any]) -> None:
    script.steps["/v1/events"] = [
        frames(
            ("ready", {"cursor": "0.1"}),
            ("task.running", {"cursor": "0.2", "subject": "another", "data": {}}),
            ("task.completed", {"cursor": "0.3", "subject": "t-1", "data": {}}),
        )
    ]
    script.steps["/v1/tasks/t-1"] = [Step(content=TASK), Step(content=ENDED)]
    assert await every(make_client(script.url).follow("t-1")) == [TASK, ENDED]
    # Asked once at the beginning and once when told; others' tasks are nobody's business here.
    assert script.times("/v1/tasks/t-1") == 2


@pytest.mark.parametrize("refusal", [NO_ROUTE, TOO_MANY])
async def test_without_a_stream_a_task_is_followed_by_asking(
    script: Scripted, make_client: Callable[..., Any], refusal: Step
) -> None:
    script.steps["/v1/events"] = [refusal]
    script.steps["/v1/tasks/t-1"] = [Step(content=TASK), Step(content=TASK), Step(content=ENDED)]
    script.steps["/v1/tasks/t-2"] = [Step(content={**ENDED, "id": "t-2"})]
    followed = await every(make_client(script.url).follow("t-1", "t-2"))
    assert [(task["id"], task["status"]) for task in followed] == [
        ("t-1", "running"), ("t-2", "completed"), ("t-1", "running"), ("t-1", "completed"),
    ]  # fmt: skip
    assert [headers.get("prefer") for headers in script.headers("/v1/tasks/t-1")] == [None, "wait=2", "wait=2"]
    # A place in the stream is not waited for.
    assert script.times("/v1/events") == 1


async def test_a_reader_of_events_waits_for_a_place(script: Scripted, make_client: Callable[..., Any]) -> None:
    script.steps["/v1/events"] = [TOO_MANY, frames(("ready", {"cursor": "0.1"}))]
    (ready,) = await first(make_client(script.url).events(), 1)
    assert (ready.type, script.times("/v1/events")) == ("ready", 2)


def stored(script: Scripted, **changes: Any) -> dict[str, Any]:
    facts = {"id": "a-1", "kind": "image", "content_type": "image/png", "size": None, "checksum": None}
    return {**facts, "url": f"{script.url}/file", "save_state": "success", **changes}


async def test_a_broken_download_is_tried_again_with_a_new_link(
    script: Scripted, make_client: Callable[..., Any], tmp_path: Path
) -> None:
    script.steps["/v1/assets/a-1"] = [Step(content=stored(script, size=6))]
    script.steps["/file"] = [Step(content=b"one", announced=6), Step(403, b"expired"), Step(content=b"onetwo")]
    path = await done(make_client(script.url).download(stored(script), tmp_path))
    assert (path.name, path.read_bytes()) == ("a-1.png", b"onetwo")
    assert script.times("/v1/assets/a-1") == 3
    # Whoever keeps the files does not get the token.
    assert all("authorization" not in headers for headers in script.headers("/file"))


async def test_a_download_that_never_arrives_leaves_nothing(
    script: Scripted, make_client: Callable[..., Any], tmp_path: Path
) -> None:
    script.steps["/v1/assets/a-1"] = [Step(content=stored(script, checksum="0" * 64))]
    script.steps["/file"] = [Step(content=b"onetwo")]
    with pytest.raises(DownloadFailed, match="checksum"):
        await done(make_client(script.url).download(stored(script), tmp_path / "fox.png"))
    assert names(tmp_path) == []
    assert script.times("/file") == 3


async def test_a_result_without_a_link_is_waited_for(
    script: Scripted, make_client: Callable[..., Any], tmp_path: Path
) -> None:
    waiting = stored(script, url=None, save_state="pending")
    script.steps["/v1/assets/a-1"] = [Step(content=waiting), Step(content=stored(script))]
    script.steps["/file"] = [Step(content=b"onetwo")]
    assert (await done(make_client(script.url).download(waiting, tmp_path))).exists()
    script.steps["/v1/assets/a-1"] = [Step(content=stored(script, url=None, save_state="expired"))]
    with pytest.raises(DownloadFailed, match="expired"):
        await done(make_client(script.url).download(waiting, tmp_path))
