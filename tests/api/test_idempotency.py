"""One request, however often it is sent: the first answer again, one task, one hold."""

from __future__ import annotations

import json
import socket
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import pytest

from tests.api.stage import Api, assert_problem, token
from tests.wait import wait_for

if TYPE_CHECKING:
    from tests.service.processes import Answer

PRICE = 4


@pytest.fixture(scope="module")
def api(either_api: Api) -> Api:
    either_api.grant("ada", 1_000)
    either_api.grant("bob", 1_000)
    return either_api


def more(before: dict[str, int], after: dict[str, int]) -> dict[str, int]:
    return {table: after[table] - before[table] for table in before if after[table] != before[table]}


def test_the_same_request_again_gets_the_first_answer_again(api: Api) -> None:
    first = api.generate(key="again")
    between = api.written()
    second = api.generate(key="again")
    assert (first.status, second.status, first.json) == (202, 202, second.json)
    assert "idempotent-replayed" not in first.headers
    assert second.headers["idempotent-replayed"] == "true"
    assert second.headers["location"] == first.headers["location"]
    assert api.written() == between


def test_the_first_answer_is_given_again_whatever_became_of_the_task(api: Api) -> None:
    first = api.generate(key="cancelled")
    assert api.ask("POST", f"{first.headers['location']}/cancel").status == 200
    assert api.generate(key="cancelled").json == first.json


def test_another_body_with_the_same_key_is_refused(api: Api) -> None:
    api.generate(key="reused")
    before = (api.written(), api.balance())
    for change in ({"prompt": "a wolf"}, {"parameters": {"aspect_ratio": "1:1"}}, {"model": "measured"}):
        assert_problem(api.generate(change, key="reused"), 422, "IDEMPOTENCY_KEY_REUSED")
    assert (api.written(), api.balance()) == before


def test_a_body_that_only_looks_different_is_the_same(api: Api) -> None:
    first = api.generate(key="order")
    body = b' {"prompt": "a red f\\u006fx",\n "parameters": {}, "model": "nano-banana"} '
    again = api.ask("POST", "/v1/images/generate", body=body, headers={"Idempotency-Key": "order"})
    assert (again.status, again.json) == (202, first.json)


def test_a_key_is_one_users_and_one_routes(api: Api) -> None:
    mine = api.generate(key="shared")
    bobs = api.generate(key="shared", user="bob")
    video = {"model": "kling-2.6", "prompt": "a red fox"}
    moving = api.ask("POST", "/v1/videos/generate", video, headers={"Idempotency-Key": "shared"})
    assert len({answer.json["id"] for answer in (mine, bobs, moving)}) == 3
    assert not [answer for answer in (mine, bobs, moving) if "idempotent-replayed" in answer.headers]


def test_without_a_key_every_request_is_one_of_its_own(api: Api) -> None:
    assert api.generate().json["id"] != api.generate().json["id"]


def test_a_refused_request_leaves_its_key_unused(api: Api) -> None:
    assert_problem(api.generate(key="poor", user="carol"), 402, "INSUFFICIENT_CREDITS")
    api.grant("carol", PRICE)
    accepted = api.generate(key="poor", user="carol")
    assert accepted.status == 202
    assert "idempotent-replayed" not in accepted.headers


def test_trying_a_task_again_can_be_repeated_too(api: Api) -> None:
    tasks = [api.generate().json["id"] for _ in range(2)]
    for task in tasks:
        api.ask("POST", f"/v1/tasks/{task}/cancel")
    key = {"Idempotency-Key": "once more"}
    first, second = (api.ask("POST", f"/v1/tasks/{tasks[0]}/retry", headers=key) for _ in range(2))
    assert (first.status, first.json["retry_of"], first.json) == (202, tasks[0], second.json)
    assert_problem(api.ask("POST", f"/v1/tasks/{tasks[1]}/retry", headers=key), 422, "IDEMPOTENCY_KEY_REUSED")


def together(count: int, act: Any) -> list[Answer]:
    """Let so many callers act at the same moment."""
    barrier = threading.Barrier(count)

    def one(number: int) -> Answer:
        barrier.wait()
        found: Answer = act(number)
        return found

    with ThreadPoolExecutor(count) as pool:
        return list(pool.map(one, range(count)))


def test_of_requests_at_the_same_moment_with_one_key_one_is_carried_out(api: Api) -> None:
    for round_number in range(5):
        before, (available, held) = api.written(), api.balance()
        answers = together(12, lambda _number, key=f"race {round_number}": api.generate(key=key))
        done = [answer for answer in answers if answer.status == 202]
        late = [answer for answer in answers if answer.status != 202]
        assert len({answer.json["id"] for answer in done}) == 1
        assert len([answer for answer in done if "idempotent-replayed" not in answer.headers]) <= 1
        for answer in late:
            assert_problem(answer, 409, "IDEMPOTENCY_KEY_IN_USE")
        grown = more(before, api.written())
        assert {table: grown.get(table) for table in ("tasks", "credit_transfers", "idempotency_keys", "jobs")} == {
            "tasks": 1, "credit_transfers": 1, "idempotency_keys": 1, "jobs": 1,
        }  # fmt: skip
        assert api.balance() == (available - PRICE, held + PRICE)


def test_of_requests_at_the_same_moment_with_credit_for_one_one_is_accepted(api: Api) -> None:
    api.grant("dave", PRICE + 1)
    answers = together(20, lambda number: api.generate(key=f"dave {number}", user="dave"))
    assert sorted(answer.status for answer in answers) == [202] + [402] * 19
    assert api.balance("dave") == (1, PRICE)


def test_an_answer_that_got_lost_is_had_by_asking_again(api: Api) -> None:
    """The caller hangs up as soon as everything is sent, as one does whose network ends there."""
    body = json.dumps({"model": "nano-banana", "prompt": "a red fox"})
    address = urlsplit(api.server.url)
    lines = [
        "POST /v1/images/generate HTTP/1.1", f"Host: {address.netloc}", f"Authorization: Bearer {token()}",
        "Content-Type: application/json", f"Content-Length: {len(body)}", "Idempotency-Key: lost", "", body,
    ]  # fmt: skip
    with socket.create_connection((address.hostname, address.port)) as connection:
        connection.sendall("\r\n".join(lines).encode())
    wait_for(lambda: api.sql("SELECT key FROM idempotency_keys WHERE key = 'lost'"), "the commit")
    before = api.written()
    answer = api.generate(key="lost")
    assert (answer.status, answer.headers["idempotent-replayed"]) == (202, "true")
    assert api.ask("GET", answer.headers["location"]).json["prompt"] == "a red fox"
    assert api.written() == before
