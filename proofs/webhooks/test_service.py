"""Deliveries while servers are killed, and by a worker that is a process of its own."""

from __future__ import annotations

import signal
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from tests.api.stage import Api, place_for
from tests.wait import PATIENCE_SECONDS, wait_for
from tests.webhooks.receiver import create, deliveries, free_port, receiving, wait_for_deliveries

if TYPE_CHECKING:
    from pathlib import Path


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
                assert worker.wait(timeout=PATIENCE_SECONDS) == 0
            finally:
                worker.kill()
                worker.wait(timeout=PATIENCE_SECONDS)
                log.close()
