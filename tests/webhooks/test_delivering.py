"""One delivery: what is sent, when it is tried again, and when it or its endpoint is given up."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest
from standardwebhooks import Webhook

from longtake import Cancelled, Done, Fail, Retry, Snooze
from longtake.adapters.net import HttpClient
from longtake.engine.control import request_cancel
from longtake.engine.outcomes import judge_crash
from longtake.services.vault.errors import VaultKeyWrong
from longtake.services.webhooks.endpoints import delete_endpoint
from longtake.services.webhooks.jobs import (
    LONGEST_SECONDS,
    MOST_AT_ONCE,
    MOST_OF_A_USER,
    MOST_TO_SILENT,
    SHORTEST_SECONDS,
    WAITS,
    DeliveryLimits,
)
from tests.databases import StoppedClock
from tests.engine.stage import execute, finish
from tests.net.servers import Behaviour, Names, answer, hanging_up, redirecting, saying, silent
from tests.wait import until
from tests.webhooks.stage import OK, Stage

if TYPE_CHECKING:
    from longtake import Database, Outcome, Transaction

HOUR = 3600.0


async def deliver(stage: Stage, kind: str = "task.completed") -> tuple[dict[str, Any], Outcome, dict[str, Any]]:
    """Make an endpoint, tell it something, try once; return the endpoint, the outcome and the delivery."""
    endpoint = await stage.create()
    await stage.tell(kind)
    await stage.dispatcher.round()
    outcome = await stage.try_once()
    [delivery] = await stage.deliveries(endpoint["id"])
    return endpoint, outcome, delivery


async def test_a_delivery_arrives_signed_and_whole(stage: Stage) -> None:
    endpoint, outcome, delivery = await deliver(stage)
    assert isinstance(outcome, Done)
    [request] = stage.receiver.received
    assert (request.method, request.path) == ("POST", "/hook")
    assert request.headers["content-type"] == "application/json"
    assert request.headers["webhook-id"] == f"msg_{delivery['id']}"
    told = Webhook(endpoint["secret"]).verify(request.body, request.headers)
    assert told["type"] == "task.completed"
    assert told["timestamp"].endswith("Z")
    assert told["data"] == {"number": 0, "id": "about task.completed", "cursor": delivery["event"]}
    assert (delivery["state"], delivery["attempts"], delivery["status_code"]) == ("delivered", 1, 204)
    assert delivery["seconds"] < 10
    assert (delivery["error"], delivery["next_at"]) == (None, None)
    assert delivery["ended_at"] is not None
    assert (await stage.endpoint(endpoint["id"]))["last_success_at"] is not None


async def test_waits_grow_until_the_endpoint_is_given_up(still: Stage, clock: StoppedClock) -> None:
    still.answers(saying(answer(500)))
    endpoint, outcome, delivery = await deliver(still)
    for number, wait in enumerate(WAITS, start=1):
        [delivery] = await still.deliveries(endpoint["id"])
        assert (delivery["state"], delivery["attempts"], delivery["status_code"]) == ("pending", number, 500)
        assert await still.wait_of(delivery["id"]) == pytest.approx(wait)
        clock.advance(wait - 0.5)
        assert await still.claim() == []
        clock.advance(0.5)
        outcome = await still.try_once()
    assert isinstance(outcome, Fail)
    assert sum(WAITS) == pytest.approx(5 + 35 * 60 + 75 * HOUR)
    [delivery] = await still.deliveries(endpoint["id"])
    assert (delivery["state"], delivery["attempts"], delivery["next_at"]) == ("failed", 10, None)
    found = await still.endpoint(endpoint["id"])
    assert (found["enabled"], found["disabled_reason"]) == (False, "failing")
    assert await still.events("webhook.disabled") == [{"reason": "failing"}]
    ids = {request.headers["webhook-id"] for request in still.receiver.received}
    bodies = {request.body for request in still.receiver.received}
    assert (ids, len(bodies)) == ({f"msg_{delivery['id']}"}, 1)
    signed = {(one.headers["webhook-timestamp"], one.headers["webhook-signature"]) for one in still.receiver.received}
    assert len(signed) == 10


async def test_an_endpoint_that_takes_others_is_not_given_up_for_one(still: Stage, clock: StoppedClock) -> None:
    still.answers(saying(answer(500)))
    endpoint, _outcome, delivery = await deliver(still)
    for wait in WAITS[:-1]:
        clock.advance(wait)
        await still.try_once()
    still.answers(OK)
    await still.tell("task.created")
    await still.dispatcher.round()
    await still.try_once()
    still.answers(saying(answer(500)))
    clock.advance(WAITS[-1])
    await still.try_once()
    [delivery, other] = await still.deliveries(endpoint["id"])
    assert (delivery["state"], other["state"]) == ("failed", "delivered")
    assert (await still.endpoint(endpoint["id"]))["enabled"]


async def test_410_disables_the_endpoint_and_ends_what_is_left(stage: Stage) -> None:
    stage.answers(saying(answer(410)))
    mine, other = await stage.create(), await stage.create(user="bob")
    await stage.tell("task.created", "task.completed")
    await stage.tell("task.created", user_id="bob")
    await stage.dispatcher.round()
    jobs = [job for job in await stage.claim() if job.args["delivery_id"] in await ids(stage, mine["id"])]
    outcome = await stage.try_job(jobs[0])
    assert isinstance(outcome, Fail)
    found = await stage.endpoint(mine["id"])
    assert (found["enabled"], found["disabled_reason"]) == (False, "gone")
    assert [one["state"] for one in await stage.deliveries(mine["id"])] == ["failed", "failed"]
    assert isinstance(await stage.try_job(jobs[1]), Done)
    assert len(stage.receiver.received) == 1
    assert await stage.events("webhook.disabled") == [{"reason": "gone"}]
    assert [one["state"] for one in await stage.deliveries(other["id"], "bob")] == ["pending"]
    await stage.tell("task.failed")
    await stage.dispatcher.round()
    assert len(await stage.deliveries(mine["id"])) == 2


async def ids(stage: Stage, endpoint_id: str) -> list[str]:
    return [one["id"] for one in await stage.deliveries(endpoint_id)]


@pytest.mark.parametrize(
    ("behaviour", "status", "said"),
    [
        (saying(answer(404)), 404, "answered 404"),
        (redirecting({"/hook": "/elsewhere"}, 307), 307, "redirects are not followed"),
        (redirecting({"/hook": "/elsewhere"}, 302), 302, "redirects are not followed"),
        (hanging_up, None, "ended before the answer"),
        (saying(b"nonsense\r\n\r\n"), None, "not HTTP"),
    ],
)
async def test_everything_else_is_a_failure_that_is_tried_again(
    stage: Stage, behaviour: Behaviour, status: int | None, said: str
) -> None:
    stage.answers(behaviour)
    _endpoint, outcome, delivery = await deliver(stage)
    assert isinstance(outcome, Retry)
    assert (delivery["state"], delivery["status_code"]) == ("pending", status)
    assert said in delivery["error"]
    assert delivery["next_at"] is not None
    assert [request.path for request in stage.receiver.received] == ["/hook"]


async def test_a_server_that_does_not_answer_is_left_in_time(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("longtake.services.webhooks.jobs.CALL_SECONDS", 0.3)
    stage.answers(silent)
    _endpoint, outcome, delivery = await deliver(stage)
    assert isinstance(outcome, Retry)
    assert "within 0.3 s" in delivery["error"]
    assert 0.2 < delivery["seconds"] < 10


async def test_nobody_can_make_us_read(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    """The status is all that counts: an answer without end is a success like any other."""

    async def endless(_request: Any, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
        while True:
            writer.write(b"ffff\r\n" + b"x" * 0xFFFF + b"\r\n")
            await writer.drain()

    stage.answers(endless)
    async with asyncio.timeout(10):
        _endpoint, outcome, delivery = await deliver(stage)
    assert isinstance(outcome, Done)
    assert delivery["state"] == "delivered"


@pytest.mark.parametrize(
    ("status", "header", "wait"),
    [
        (429, "120", 120.0),
        (503, "120", 120.0),
        (503, "2", 5.0),
        (429, "soon", 5.0),
        (500, "120", 5.0),
        (503, "9" * 9, HOUR),
    ],
)
async def test_retry_after_is_honoured_where_it_asks_for_more(
    still: Stage, status: int, header: str, wait: float
) -> None:
    still.answers(saying(answer(status, headers={"Retry-After": header})))
    _endpoint, _outcome, delivery = await deliver(still)
    assert await still.wait_of(delivery["id"]) == pytest.approx(wait)


async def test_a_name_that_leads_into_our_network_is_not_followed(database: Database) -> None:
    """It was a public name when the endpoint was made, and may be one again."""
    client = HttpClient(resolver=Names(hooks_example=[["127.0.0.1"], ["10.0.0.8"]]))
    async with Stage(database, client=client).open() as stage:
        endpoint = await stage.create(url=f"http://hooks.example:{stage.receiver.port}/hook")
        await stage.tell("task.completed")
        await stage.dispatcher.round()
        assert isinstance(await stage.try_once(), Retry)
        [delivery] = await stage.deliveries(endpoint["id"])
        assert "not on the public internet" in delivery["error"]
        assert "127.0.0.1" not in delivery["error"]
        assert stage.receiver.connections == 0


async def test_both_secrets_sign_for_a_day_after_a_rotation(still: Stage, clock: StoppedClock) -> None:
    endpoint = await still.create()
    rotated = await still.webhooks.rotate("ann", endpoint["id"])
    assert rotated["secret"] != endpoint["secret"]
    counts = []
    for wait in (0.0, 24 * HOUR - 1, 2.0):
        clock.advance(wait)
        await still.tell("task.completed")
        await still.dispatcher.round()
        await still.try_once()
        counts.append(len(still.receiver.received[-1].headers["webhook-signature"].split(" ")))
    assert counts == [2, 2, 1]
    last = still.receiver.received[-1]
    moment = int(last.headers["webhook-timestamp"])
    signed = Webhook(rotated["secret"]).sign(last.headers["webhook-id"], at(moment), last.body.decode())
    assert last.headers["webhook-signature"] == signed


def at(moment: int) -> datetime:
    return datetime.fromtimestamp(moment, UTC)


async def test_a_worker_that_dies_after_sending_sends_the_same_again(stage: Stage) -> None:
    endpoint = await stage.create()
    await stage.tell("task.completed")
    await stage.dispatcher.round()
    [job] = await stage.claim()
    await stage.engine.kinds[job.kind].handler(job)

    def remove_dead_workers(tx: Transaction) -> None:
        assert stage.engine.finish(tx, [judge_crash(job, None)]) == {job.id}

    await stage.database.run(remove_dead_workers)
    await stage.try_once()
    one, other = stage.receiver.received
    assert (one.headers["webhook-id"], one.body) == (other.headers["webhook-id"], other.body)
    [delivery] = await stage.deliveries(endpoint["id"])
    assert (delivery["state"], delivery["attempts"]) == ("delivered", 1)


async def test_what_a_worker_without_lease_reports_is_not_written(stage: Stage) -> None:
    endpoint = await stage.create()
    await stage.tell("task.completed")
    await stage.dispatcher.round()
    [job] = await stage.claim()
    outcome = await stage.engine.kinds[job.kind].handler(job)
    await stage.database.run(lambda tx: stage.engine.finish(tx, [judge_crash(job, None)]))
    assert not await stage.database.run(finish, stage.engine, job, outcome)
    assert [one["state"] for one in await stage.deliveries(endpoint["id"])] == ["pending"]


async def test_a_try_that_ends_after_its_endpoint_was_disabled_changes_nothing(stage: Stage) -> None:
    endpoint = await stage.create()
    await stage.tell("task.completed")
    await stage.dispatcher.round()
    [job] = await stage.claim()
    stage.answers(saying(answer(500)))
    outcome = await stage.engine.kinds[job.kind].handler(job)
    await stage.webhooks.change("ann", endpoint["id"], {"enabled": False})
    assert await stage.database.run(finish, stage.engine, job, outcome)
    [delivery] = await stage.deliveries(endpoint["id"])
    assert (delivery["state"], delivery["error"]) == ("failed", "The webhook was disabled.")
    assert delivery["next_at"] is None


async def test_one_slow_receiver_takes_no_more_than_its_share(still: Stage, clock: StoppedClock) -> None:
    gate = asyncio.Event()

    async def slow(request: Any, writer: asyncio.StreamWriter) -> None:
        await gate.wait()
        writer.write(answer(204))

    still.answers(slow)
    mine = await still.create()
    await still.tell(*["task.completed"] * 20)
    await still.dispatcher.round()
    jobs = await still.claim()
    assert len(jobs) == 20
    tries = [asyncio.create_task(still.try_job(job)) for job in jobs]
    await until(lambda: sum(one.done() for one in tries) == 12 and len(still.receiver.received) == MOST_AT_ONCE)
    outcomes = [one.result() for one in tries if one.done()]
    assert all(isinstance(one, Snooze) and 0.5 <= one.seconds <= 1.5 for one in outcomes)
    gate.set()
    await asyncio.gather(*tries)
    clock.advance(LONGEST_SECONDS)
    assert all(isinstance(one, Done) for one in await still.try_all())
    assert {one["state"] for one in await still.deliveries(mine["id"])} == {"delivered"}
    assert len(still.receiver.received) == 20


async def test_somebody_with_many_silent_receivers_holds_up_nobody_else(still: Stage) -> None:
    gate = asyncio.Event()

    async def slow(request: Any, writer: asyncio.StreamWriter) -> None:
        if request.path == "/silent":
            await gate.wait()
        writer.write(answer(204))

    still.answers(slow)
    for _number in range(8):
        await still.create(user="bob", url=f"{still.receiver.url}/silent")
    mine = await still.create()
    await still.tell(*["task.completed"] * 8, user_id="bob")
    await still.dispatcher.round()
    jobs = await still.claim()
    assert len(jobs) == 64, "the whole lane"
    tries = [asyncio.create_task(still.try_job(job)) for job in jobs]
    try:
        await until(lambda: sum(one.done() for one in tries) == 64 - MOST_OF_A_USER)
        assert all(isinstance(one.result(), Snooze) for one in tries if one.done())
        await still.tell("task.completed")
        await still.dispatcher.round()
        assert isinstance(await still.try_once(), Done)
        assert [one["state"] for one in await still.deliveries(mine["id"])] == ["delivered"]
    finally:
        gate.set()
        await asyncio.gather(*tries)


async def test_a_receiver_that_left_a_try_without_an_answer_gets_fewer(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("longtake.services.webhooks.jobs.CALL_SECONDS", 0.3)
    stage.answers(silent)
    endpoint, _outcome, _delivery = await deliver(stage)
    limits = stage.delivering._limits
    entered = [limits.enter(endpoint["id"], "ann") is None for _number in range(MOST_AT_ONCE)]
    assert entered.count(True) == MOST_TO_SILENT
    # There is room for the same user's others, and for all of it again after an answer.
    assert limits.enter("another", "ann") is None
    limits.leave(endpoint["id"], "ann", 0.1, answered=True)
    assert limits.enter(endpoint["id"], "ann") is None
    assert limits.enter(endpoint["id"], "ann") is None


async def test_waiting_in_line_costs_no_try(still: Stage, clock: StoppedClock) -> None:
    """The back-off goes on where it was."""
    still.answers(saying(answer(500)))
    endpoint, _outcome, delivery = await deliver(still)
    clock.advance(WAITS[0])
    limits = still.delivering._limits
    for _number in range(MOST_AT_ONCE):
        assert limits.enter(endpoint["id"], "ann") is None
    assert isinstance(await still.try_once(), Snooze)
    for _number in range(MOST_AT_ONCE):
        limits.leave(endpoint["id"], "ann", 1.0)
    clock.advance(LONGEST_SECONDS)
    await still.try_once()
    assert await still.wait_of(delivery["id"]) == pytest.approx(WAITS[1])


def test_the_more_deliveries_wait_the_longer_the_wait() -> None:
    limits = DeliveryLimits(StoppedClock())
    for _number in range(MOST_AT_ONCE):
        assert limits.enter("a", "ann") is None
    assert limits.enter("b", "bob") is None
    waits = [limits.enter("a", "ann") or 0.0 for _number in range(1000)]
    assert waits == sorted(waits)
    assert (waits[0], waits[99], waits[-1]) == (0.5, 12.5, LONGEST_SECONDS)
    for _number in range(MOST_AT_ONCE - 1):
        limits.leave("a", "ann", 0.01)
    for _number in range(1, MOST_AT_ONCE):
        assert limits.enter("a", "ann") is None
    # The receiver is fast: the rest come sooner.
    assert 10 < (limits.enter("a", "ann") or 0.0) < 40
    for _number in range(MOST_AT_ONCE):
        limits.leave("a", "ann", 0.01)
    assert limits.enter("a", "ann") is None


def test_those_who_waited_and_went_elsewhere_are_not_waited_for() -> None:
    """Another process may have sent them: an estimate that never reaches zero must not remember them for ever."""
    clock = StoppedClock()
    limits = DeliveryLimits(clock)
    for _number in range(MOST_AT_ONCE):
        assert limits.enter("a", "ann") is None
    for _number in range(1000):
        limits.enter("a", "ann")
    clock.advance(LONGEST_SECONDS)
    assert limits.enter("a", "ann") == SHORTEST_SECONDS


async def test_a_secret_that_cannot_be_opened_is_our_trouble(stage: Stage) -> None:
    endpoint = await stage.create()
    await stage.tell("task.completed")
    await stage.dispatcher.round()
    stage.delivering._vault = type(stage.vault)(lambda: [b"x" * 32])
    [job] = await stage.claim()

    with pytest.raises(VaultKeyWrong):
        await stage.engine.kinds[job.kind].handler(job)
    surprise = Retry("VAULT_KEY_WRONG", "VaultKeyWrong: …")
    assert await stage.database.run(finish, stage.engine, job, surprise)
    [delivery] = await stage.deliveries(endpoint["id"])
    assert (delivery["state"], delivery["attempts"]) == ("pending", 0)
    assert delivery["error"] == "Something went wrong here, not at your server."
    assert stage.receiver.received == []


async def test_a_delivery_whose_job_an_operator_cancelled_has_failed(stage: Stage) -> None:
    endpoint = await stage.create()
    await stage.tell("task.completed")
    await stage.dispatcher.round()

    def cancel(tx: Transaction) -> str:
        [(job_id,)] = tx.sql("SELECT id FROM jobs")
        return request_cancel(tx, stage.engine, str(job_id))

    assert await stage.database.run(cancel) == "cancelled"
    [delivery] = await stage.deliveries(endpoint["id"])
    assert (delivery["state"], delivery["error"]) == ("failed", "It was cancelled.")
    assert (await stage.endpoint(endpoint["id"]))["enabled"]


async def test_nothing_is_sent_to_an_endpoint_that_was_disabled_or_deleted_meanwhile(stage: Stage) -> None:
    disabled, deleted = await stage.create(), await stage.create()
    await stage.tell("task.completed")
    await stage.dispatcher.round()
    await stage.webhooks.change("ann", disabled["id"], {"enabled": False})
    await stage.database.run(delete_endpoint, "ann", deleted["id"])
    outcomes = await stage.try_all()
    assert {type(one) for one in outcomes} == {Done, Cancelled}
    assert stage.receiver.received == []
    [delivery] = await stage.deliveries(disabled["id"])
    assert (delivery["state"], delivery["error"]) == ("failed", "The webhook was disabled.")


async def test_a_delivery_dispatched_while_its_endpoint_is_being_disabled_fails_too(stage: Stage) -> None:
    endpoint = await stage.create()
    await stage.tell("task.completed")
    await stage.dispatcher.round()
    await stage.database.run(execute, "UPDATE webhook_endpoints SET enabled = false")
    assert isinstance(await stage.try_once(), Fail)
    [delivery] = await stage.deliveries(endpoint["id"])
    assert delivery["state"] == "failed"
