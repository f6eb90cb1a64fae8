"""Webhooks as people run them: a server's process, the example of a receiver as another, and kills."""

from __future__ import annotations

import http.client
import json
import os
import signal
import socket
import subprocess
import sys
import time
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from longtake.webhooks.signing import new_secret, signed_headers
from tests.api.stage import Api, place_for
from tests.wait import wait_for

if TYPE_CHECKING:
    from collections.abc import Iterator

EXAMPLE = Path(__file__).parents[2] / "examples" / "webhook_receiver.py"


@dataclass
class Receiver:
    """The example of a receiver, running."""

    port: int
    output: Path

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/"

    def lines(self) -> list[list[str]]:
        return [line.split() for line in self.output.read_text().splitlines()]

    def post(self, body: bytes, headers: dict[str, str]) -> int:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=10)
        try:
            connection.request("POST", "/", body, headers)
            return connection.getresponse().status
        finally:
            connection.close()


def free_port() -> int:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return int(taken.getsockname()[1])


@contextmanager
def receiving(folder: Path, port: int, secret: str) -> Iterator[Receiver]:
    """Run the example until the block ends."""
    output, errors = folder / "received.txt", folder / "receiver.log"
    with output.open("ab") as lines, errors.open("ab") as log:
        command = [sys.executable, str(EXAMPLE), str(port)]
        process = subprocess.Popen(command, env={**os.environ, "SECRET": secret}, stdout=lines, stderr=log)
    try:
        wait_for(lambda: _answers(port) or process.poll() is not None, "the receiver's start")
        yield Receiver(port, output)
    finally:
        process.kill()
        process.wait(timeout=10)


def _answers(port: int) -> bool:
    with socket.socket() as one:
        return one.connect_ex(("127.0.0.1", port)) == 0


def create(api: Api, port: int, **body: Any) -> dict[str, Any]:
    made = api.ask("POST", "/v1/webhooks", {"url": f"http://127.0.0.1:{port}/"} | body)
    assert made.status == 201, made.body
    found: dict[str, Any] = made.json
    return found


def deliveries(api: Api, webhook_id: str, state: str = "delivered") -> list[dict[str, Any]]:
    found = api.ask("GET", f"/v1/webhooks/{webhook_id}/deliveries?limit=200&state={state}").json
    return list(found["deliveries"])


def wait_for_deliveries(api: Api, webhook_id: str, number: int) -> None:
    wait_for(lambda: len(deliveries(api, webhook_id)) == number, f"{number} deliveries")


def test_the_example_believes_only_what_is_signed_and_fresh(tmp_path: Path) -> None:
    secret, body = new_secret(), json.dumps({"type": "task.completed", "data": {"id": "x"}}).encode()
    now = int(time.time())
    with receiving(tmp_path, free_port(), secret) as receiver:
        assert receiver.post(body, signed_headers([secret], "a", now, body)) == 204
        assert receiver.post(body, signed_headers([new_secret(), secret], "b", now, body)) == 204
        assert receiver.post(body, signed_headers([new_secret()], "c", now, body)) == 401
        assert receiver.post(body, signed_headers([secret], "d", now - 600, body)) == 401
        assert receiver.post(body + b" ", signed_headers([secret], "e", now, body)) == 401
        assert receiver.post(body, {}) == 401
        assert [line[0] for line in receiver.lines()] == ["msg_a", "msg_b"]


@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
def test_events_arrive_though_the_server_is_killed_again_and_again(
    kind: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    url = "" if kind == "sqlite" else str(request.getfixturevalue("postgresql_url"))
    place = place_for(tmp_path, url, lease_seconds="5", heartbeat_seconds="0.5", log_level="debug")
    port = free_port()
    with place.server() as server:
        made = create(Api(place, server), port)
    with receiving(tmp_path, port, made["secret"]) as receiver:
        conversations: set[str] = set()
        for life in range(3):
            with place.server() as server:
                api = Api(place, server)
                # A job whose worker dies three times is ended as the culprit: none may meet more than one kill here.
                wait_for_deliveries(api, made["id"], 5 * life)
                conversations |= {api.conversation() for _number in range(5)}
                server.process.send_signal(signal.SIGKILL)
        with place.server() as server:
            api = Api(place, server)
            wait_for_deliveries(api, made["id"], 15)
            assert conversations == {str(line[2]) for line in receiver.lines()}
            # One delivery for each event; a kill may have it sent twice, under one id.
            assert len({line[0] for line in receiver.lines()}) == 15
            assert api.sql("SELECT count(*) FROM webhook_deliveries") == [(15,)]
            before = api.ask("GET", f"/v1/webhooks/{made['id']}").json
            assert before["enabled"]
            assert api.ask("DELETE", f"/v1/webhooks/{made['id']}").status == 204
            assert api.ask("GET", f"/v1/webhooks/{made['id']}").status == 404
            assert server.stop() == 0
    assert made["secret"].removeprefix("whsec_") not in (tmp_path / "server.log").read_text()


def test_deliveries_go_to_loopback_only_if_that_is_allowed(tmp_path: Path) -> None:
    place = place_for(tmp_path, allow_addresses="")
    with place.server() as server:
        api = Api(place, server)
        refused = api.ask("POST", "/v1/webhooks", {"url": "http://127.0.0.1:9/"})
        assert (refused.status, refused.json["code"]) == (422, "ADDRESS_REFUSED")
        made = api.ask("POST", "/v1/webhooks", {"url": "http://localhost:9/"}).json
        api.conversation()
        [delivery] = wait_for(
            lambda: [one for one in deliveries(api, made["id"], "pending") if one["attempts"]], "a try"
        )
        assert "not one of the public internet" in delivery["error"]


def test_a_worker_of_its_own_dispatches_and_delivers(tmp_path: Path, postgresql_url: str) -> None:
    place = place_for(tmp_path, postgresql_url)
    with place.server("--no-worker") as server:
        api = Api(place, server)
        port = free_port()
        made = create(api, port, events=["conversation.*"])
        api.conversation()
        with receiving(tmp_path, port, made["secret"]) as receiver:
            log = (tmp_path / "worker.log").open("ab")
            command = [sys.executable, "-m", "longtake", "worker"]
            worker = subprocess.Popen(command, cwd=tmp_path, env=place.environment, stdout=log, stderr=log)
            try:
                wait_for(lambda: deliveries(api, made["id"]), "the delivery")
                assert [line[1] for line in receiver.lines()] == ["conversation.changed"]
                worker.terminate()
                assert worker.wait(timeout=30) == 0
            finally:
                worker.kill()
                worker.wait(timeout=10)
                log.close()
