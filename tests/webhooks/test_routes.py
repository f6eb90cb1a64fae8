"""`/v1/webhooks` as its callers see it."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from longtake import Done, Fail, Retry
from longtake.errors import StateConflict
from longtake.services.webhooks.endpoints import MOST_ENDPOINTS
from longtake.services.webhooks.jobs import WAITS
from longtake.services.webhooks.routes import build_routes
from tests.net.servers import answer, saying
from tests.web_client import Answer, Client
from tests.webhooks.stage import OK, TYPES, Stage

if TYPE_CHECKING:
    from tests.databases import StoppedClock

NOTHING = "0199c1f2-7a40-7cc3-98c4-dc0c0c07398f"
SECRET_FREE = {
    "id", "url", "description", "events", "enabled", "disabled_reason", "previous_ends_at", "last_success_at",
    "created_at", "changed_at",
}  # fmt: skip


def client(stage: Stage, user: str = "ann", scopes: frozenset[str] | None = None) -> Client:
    return Client(build_routes(stage.webhooks, TYPES), user, scopes=scopes)


async def create(stage: Stage, **body: Any) -> Answer:
    return await client(stage).post("/v1/webhooks", {"url": f"{stage.receiver.url}/hook"} | body)


async def delivered(stage: Stage, *kinds: str) -> tuple[str, list[str]]:
    """Make a webhook and tell it something; return the address of its deliveries, and their ids, newest first."""
    path = f"/v1/webhooks/{(await create(stage)).json['id']}/deliveries"
    await stage.tell(*(kinds or ("task.completed",)))
    await stage.dispatcher.round()
    found = await client(stage).get(path)
    return path, [one["id"] for one in found.json["deliveries"]]


async def test_a_secret_is_shown_when_it_is_made_and_never_again(stage: Stage) -> None:
    made = await create(stage, description="the shop", events=["task.*"])
    assert made.status == 201
    assert set(made.json) == SECRET_FREE | {"secret"}
    path = f"/v1/webhooks/{made.json['id']}"
    shown = await client(stage).get(path)
    assert {**shown.json, "secret": made.json["secret"]} == made.json
    assert (await client(stage).get("/v1/webhooks")).json == {"webhooks": [shown.json]}
    rotated = await client(stage).post(f"{path}/rotate")
    assert rotated.status == 200
    assert rotated.json["secret"] != made.json["secret"]
    assert rotated.json["previous_ends_at"] is not None
    assert set((await client(stage).get(path)).json) == SECRET_FREE
    changed = await client(stage).patch(path, {"description": "other", "events": ["asset.stored"]})
    assert set(changed.json) == SECRET_FREE
    assert (changed.json["description"], changed.json["events"]) == ("other", ["asset.stored"])
    assert (await client(stage).patch(path, {})).json["url"] == made.json["url"]


async def test_secrets_are_in_no_row(stage: Stage) -> None:
    made = (await create(stage)).json
    rotated = (await client(stage).post(f"/v1/webhooks/{made['id']}/rotate")).json
    await stage.tell("task.completed")
    await stage.dispatcher.round()
    await stage.try_once()
    tables = ("webhook_endpoints", "webhook_deliveries", "events", "jobs", "jobs_ended", "job_attempts", "secrets")
    for table in tables:
        rows = await stage.database.read(lambda tx, name: tx.sql(f"SELECT * FROM {name}"), table)
        for secret in (made["secret"], rotated["secret"]):
            assert secret.removeprefix("whsec_") not in str(rows), table


@pytest.mark.parametrize(
    ("body", "code"),
    [
        ({"url": "ftp://example.com"}, "ADDRESS_REFUSED"),
        ({"url": "https://user:password@example.com/"}, "ADDRESS_REFUSED"),
        ({"url": "https://exa mple.com"}, "ADDRESS_REFUSED"),
        ({"url": "/hook"}, "ADDRESS_REFUSED"),
        ({"url": "http://10.0.0.8/"}, "ADDRESS_REFUSED"),
        ({"url": "http://169.254.169.254/latest/meta-data"}, "ADDRESS_REFUSED"),
        ({"url": "http://[fd00::1]/"}, "ADDRESS_REFUSED"),
        ({"url": "http://2130706433/"}, "ADDRESS_REFUSED"),
        ({"url": "https://example.com/\ud800"}, "REQUEST_INVALID"),
        ({"url": "https://example.com/\0"}, "TEXT_INVALID"),
        ({"url": ""}, "REQUEST_INVALID"),
        ({"url": "https://example.com/" + "x" * 2_000}, "REQUEST_INVALID"),
        ({"url": None}, "REQUEST_INVALID"),
        ({"events": ["job.done"]}, "REQUEST_INVALID"),
        ({"events": ["task.compleated"]}, "REQUEST_INVALID"),
        ({"events": ["webhook.disabled"]}, "REQUEST_INVALID"),
        ({"events": ["*"]}, "REQUEST_INVALID"),
        ({"events": ["task.*\n"]}, "REQUEST_INVALID"),
        ({"events": ["task.completed"] * 51}, "REQUEST_INVALID"),
        ({"events": "task.completed"}, "REQUEST_INVALID"),
        ({"description": "x" * 201}, "REQUEST_INVALID"),
        ({"description": "\0"}, "TEXT_INVALID"),
        ({"secret": "whsec_mine"}, "REQUEST_INVALID"),
    ],
)
async def test_what_cannot_be_a_webhook_is_refused_at_once(quick: Stage, body: dict[str, Any], code: str) -> None:
    stage = quick
    refused = await create(stage, **body)
    assert (refused.status, refused.json["code"]) == (422, code)
    if body.get("url", "x") is not None and "secret" not in body:
        made = (await create(stage)).json
        changed = await client(stage).patch(f"/v1/webhooks/{made['id']}", body)
        assert (changed.status, changed.json["code"]) == (422, code)
        assert (await stage.endpoint(made["id"]))["url"] == made["url"]


async def test_one_user_has_twenty_at_most_however_fast_they_are_made(stage: Stage) -> None:
    async def one() -> bool:
        try:
            await stage.create()
        except StateConflict:
            return False
        return True

    made = await asyncio.gather(*(one() for _number in range(MOST_ENDPOINTS + 10)))
    assert sum(made) == MOST_ENDPOINTS
    refused = await create(stage)
    assert (refused.status, refused.json["code"]) == (409, "STATE_CONFLICT")
    await stage.create(user="bob")


async def test_reading_and_changing_need_their_scopes(stage: Stage) -> None:
    path, [delivery] = await delivered(stage)
    webhook = path.removesuffix("/deliveries")
    nobody, reader = (client(stage, scopes=frozenset(one)) for one in ((), ("read",)))
    for address in ("/v1/webhooks", webhook, path, f"{path}/{delivery}"):
        assert (await nobody.get(address)).status == 403
        assert (await reader.get(address)).status == 200
    for address in ("/v1/webhooks", f"{webhook}/rotate", f"{webhook}/test", f"{path}/{delivery}/redeliver"):
        assert (await reader.post(address, {"url": "https://example.com"})).status == 403
    assert (await reader.patch(webhook, {"enabled": False})).status == 403


@pytest.mark.parametrize(("scopes", "key"), [(("generate",), None), (("generate", "read"), NOTHING)])
async def test_what_goes_on_reading_is_set_up_only_by_who_may_read_and_cannot_be_revoked(
    stage: Stage, scopes: tuple[str, ...], key: str | None
) -> None:
    webhook = f"/v1/webhooks/{(await create(stage)).json['id']}"
    asking = Client(build_routes(stage.webhooks, TYPES), "ann", scopes=frozenset(scopes), key_id=key)
    answers = [
        await asking.post("/v1/webhooks", {"url": "https://example.com"}),
        await asking.patch(webhook, {"url": "https://example.com"}),
        await asking.post(f"{webhook}/rotate"),
    ]
    assert [(one.status, one.json["code"]) for one in answers] == [(403, "FORBIDDEN")] * 3
    service = Client(build_routes(stage.webhooks, TYPES), "ann", "service", key_id=NOTHING)
    assert (await service.post("/v1/webhooks", {"url": "https://example.com"})).status == 201


async def test_somebody_elses_is_as_good_as_none(stage: Stage) -> None:
    path, [delivery] = await delivered(stage)
    bob = client(stage, "bob")
    own = (await bob.post("/v1/webhooks", {"url": "https://example.com"})).json["id"]
    webhook = path.removesuffix("/deliveries").rpartition("/")[2]
    for wrong in (webhook, NOTHING):
        address = f"/v1/webhooks/{wrong}"
        answers = [await bob.get(address), await bob.get(f"{address}/deliveries"), await bob.patch(address, {})]
        answers += [await bob.post(f"{address}/{action}") for action in ("rotate", "test")]
        answers += [await bob.get(f"{address}/deliveries/{delivery}")]
        for one in answers:
            assert (one.status, one.json["detail"]) == (404, f"There is no webhook {wrong}.")
    # Her delivery under his webhook.
    assert (await bob.get(f"/v1/webhooks/{own}/deliveries/{delivery}")).status == 404
    assert (await bob.post(f"/v1/webhooks/{own}/deliveries/{delivery}/redeliver")).status == 404


async def test_a_test_is_sent_once_and_says_what_came_of_it(stage: Stage) -> None:
    made = (await create(stage, events=["task.completed"])).json
    path = f"/v1/webhooks/{made['id']}"
    sent = await client(stage).post(f"{path}/test")
    assert (sent.status, sent.json["type"], sent.json["event"]) == (202, "webhook.test", None)
    assert isinstance(await stage.try_once(), Done)
    assert stage.received() == [sent.json["payload"]]
    stage.answers(saying(answer(500)))
    await client(stage).post(f"{path}/test")
    assert isinstance(await stage.try_once(), Fail)
    stage.answers(saying(answer(410)))
    again = (await client(stage).post(f"{path}/test")).json
    assert isinstance(await stage.try_once(), Fail)
    shown = (await client(stage).get(f"{path}/deliveries/{again['id']}")).json
    assert (shown["state"], shown["status_code"], shown["attempts"]) == ("failed", 410, 1)
    assert (await client(stage).get(path)).json["enabled"]
    await client(stage).patch(path, {"enabled": False})
    assert (await client(stage).post(f"{path}/test")).status == 409


async def test_deliveries_come_newest_first_in_pages_and_by_state(stage: Stage) -> None:
    path, ids = await delivered(stage, "task.created", "task.running", "task.completed")
    ann = client(stage)
    first = (await ann.get(path, limit=2)).json
    rest = (await ann.get(path, limit=2, before=first["next"])).json
    assert [one["type"] for one in first["deliveries"]] == ["task.completed", "task.running"]
    assert ([one["type"] for one in rest["deliveries"]], rest["next"]) == (["task.created"], None)
    [job, *_others] = await stage.claim()
    await stage.try_job(job)
    assert [one["id"] for one in (await ann.get(path, state="delivered")).json["deliveries"]] == [
        job.args["delivery_id"]
    ]
    assert len((await ann.get(path, state="pending")).json["deliveries"]) == 2
    assert (await ann.get(path, state="lost")).status == 422
    shown = (await ann.get(f"{path}/{ids[0]}")).json
    assert shown["payload"]["data"]["id"] == "about task.completed"


async def test_what_has_ended_is_delivered_again_under_the_same_id(stage: Stage) -> None:
    path, [delivery] = await delivered(stage)
    await stage.try_once()
    again = await client(stage).post(f"{path}/{delivery}/redeliver")
    assert (again.status, again.json["state"]) == (202, "pending")
    twice = await client(stage).post(f"{path}/{delivery}/redeliver")
    assert (twice.status, twice.json["code"]) == (409, "STATE_CONFLICT")
    await stage.try_once()
    one, other = stage.receiver.received
    assert (one.headers["webhook-id"], one.body) == (other.headers["webhook-id"], other.body)
    shown = (await client(stage).get(f"{path}/{delivery}")).json
    assert (shown["state"], shown["attempts"]) == ("delivered", 2)


async def test_what_waits_for_hours_is_tried_now_if_wanted(still: Stage, clock: StoppedClock) -> None:
    still.answers(saying(answer(500)))
    path, [delivery] = await delivered(still)
    running = await still.claim()
    assert (await client(still).post(f"{path}/{delivery}/redeliver")).status == 409
    assert isinstance(await still.try_job(running[0]), Retry)
    for wait in WAITS[:3]:
        clock.advance(wait)
        await still.try_once()
    assert (await client(still).post(f"{path}/{delivery}/redeliver")).status == 202
    still.answers(OK)
    assert isinstance(await still.try_once(), Done)


async def test_what_failed_with_its_endpoint_is_delivered_after_that_is_enabled(still: Stage) -> None:
    still.answers(saying(answer(500)))
    path, [delivery] = await delivered(still)
    webhook = path.removesuffix("/deliveries")
    await still.try_once()
    await client(still).patch(webhook, {"enabled": False})
    refused = await client(still).post(f"{path}/{delivery}/redeliver")
    assert (refused.status, refused.json["code"]) == (409, "STATE_CONFLICT")
    enabled = await client(still).patch(webhook, {"enabled": True})
    assert (enabled.json["enabled"], enabled.json["disabled_reason"]) == (True, None)
    assert (await client(still).post(f"{path}/{delivery}/redeliver")).status == 202
    # With all its tries again, and as one job.
    assert isinstance(await still.try_once(), Retry)
    assert await still.wait_of(delivery) == pytest.approx(WAITS[0])


async def test_two_who_redeliver_at_once_start_one_job(stage: Stage) -> None:
    path, [delivery] = await delivered(stage)
    await stage.try_once()
    answers = await asyncio.gather(*(client(stage).post(f"{path}/{delivery}/redeliver") for _number in range(8)))
    # On PostgreSQL one that began before the first may still take its job for one that waits, and hurry it.
    assert {one.status for one in answers} <= {202, 409}
    assert 202 in {one.status for one in answers}
    assert await stage.written() == (1, 1)
