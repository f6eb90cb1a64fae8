"""Webhooks as people run them: a server, and the example of a receiver as a process."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING

from longtake.services.webhooks.signatures import new_secret, signed_headers
from tests.api.stage import Api, place_for
from tests.wait import wait_for
from tests.webhooks.receiver import create, deliveries, free_port, receiving, wait_for_deliveries

if TYPE_CHECKING:
    from pathlib import Path


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


def test_deliveries_go_to_loopback_only_if_that_is_allowed(tmp_path: Path) -> None:
    place = place_for(tmp_path, allow_addresses="")
    with place.server_here() as server:
        api = Api(place, server)
        refused = api.ask("POST", "/v1/webhooks", {"url": "http://127.0.0.1:9/"})
        assert (refused.status, refused.json["code"]) == (422, "ADDRESS_REFUSED")
        made = api.ask("POST", "/v1/webhooks", {"url": "http://localhost:9/"}).json
        api.conversation()
        [delivery] = wait_for(
            lambda: [one for one in deliveries(api, made["id"], "pending") if one["attempts"]], "a try"
        )
        assert "not on the public internet" in delivery["error"]


def test_events_arrive_at_the_example(tmp_path: Path) -> None:
    port = free_port()
    place = place_for(tmp_path)
    with place.server_here() as server:
        api = Api(place, server)
        made = create(api, port)
        with receiving(tmp_path, port, made["secret"]) as receiver:
            conversations = {api.conversation() for _number in range(3)}
            wait_for_deliveries(api, made["id"], 3)
            assert {str(line[2]) for line in receiver.lines()} == conversations
