"""Credits over HTTP: who may see and do what, and how refusals look."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from longtake.clock import new_id
from longtake.services.credits.routes import build_routes
from tests.credits.stage import begin, capture, end_task, give
from tests.web_client import Client

if TYPE_CHECKING:
    from collections.abc import Callable

    from longtake import Database

    As = Callable[..., Client]


@pytest.fixture
def client_of(database: Database) -> As:
    def client_of(user_id: str, role: str = "user", scopes: frozenset[str] | None = None) -> Client:
        return Client(build_routes(database), user_id, role, scopes)

    return client_of


async def test_users_see_their_own_credits(database: Database, client_of: As) -> None:
    database.run_blocking(give, "ada", 100)
    task = database.run_blocking(begin, "ada", 30)
    assert (await client_of("ada").get("/v1/credits")).json == {"available": 70, "held": 30}
    assert (await client_of("bob").get("/v1/credits")).json == {"available": 0, "held": 0}
    page = (await client_of("ada").get("/v1/credits/history", limit=1)).json
    (newest,) = page["transfers"]
    assert (newest["kind"], newest["available"], newest["task_id"]) == ("hold", -30, task)
    # Who administers a service is none of its users' business.
    assert "made_by" not in newest
    older = (await client_of("ada").get("/v1/credits/history", before=page["next"])).json
    assert ([one["kind"] for one in older["transfers"]], older["next"]) == (["grant"], None)
    assert (await client_of("bob").get("/v1/credits/history")).json == {"transfers": [], "next": None}


async def test_admins_grant_and_the_same_reference_is_the_same_grant(client_of: As) -> None:
    order = {"user_id": "ada", "amount": 100, "reason": "October", "reference": "payment 1"}
    first = await client_of("root", "admin").post("/v1/admin/credits/grant", order)
    assert first.status == 200
    assert (await client_of("shop", "service").post("/v1/admin/credits/grant", order)).json == first.json
    assert (await client_of("ada").get("/v1/credits")).json["available"] == 100
    other = await client_of("root", "admin").post("/v1/admin/credits/grant", {**order, "amount": 1})
    assert (other.status, other.json["code"]) == (409, "STATE_CONFLICT")


@pytest.mark.parametrize(
    ("role", "scopes"),
    [("user", None), ("operator", None), ("admin", frozenset({"read"})), ("service", frozenset({"read"}))],
)
async def test_others_neither_grant_nor_refund(
    database: Database, client_of: As, role: str, scopes: frozenset[str] | None
) -> None:
    client = client_of("ada", role, scopes)
    order = {"user_id": "ada", "amount": 100, "reason": "because"}
    for path, body in (("credits/grant", order), (f"tasks/{new_id()}/refund", {"reason": "x"})):
        refused = await client.post(f"/v1/admin/{path}", body)
        assert (refused.status, refused.json["code"]) == (403, "FORBIDDEN")
    assert (await client_of("ada").get("/v1/credits")).json["available"] == 0


async def test_a_service_may_not_refund(client_of: As) -> None:
    assert (
        await client_of("shop", "service").post(f"/v1/admin/tasks/{new_id()}/refund", {"reason": "x"})
    ).status == 403


async def test_reading_needs_the_scope_to_read(client_of: As) -> None:
    client = client_of("ada", "user", frozenset({"generate"}))
    assert (await client.get("/v1/credits")).status == 403
    assert (await client.get("/v1/credits/history")).status == 403


async def test_a_task_is_refunded_once(database: Database, client_of: As) -> None:
    database.run_blocking(give, "ada", 100)
    task = database.run_blocking(begin, "ada", 30)
    client = client_of("root", "admin")

    async def ask() -> tuple[int, Any]:
        answer = await client.post(f"/v1/admin/tasks/{task}/refund", {"reason": "unusable"})
        return answer.status, answer.json

    status, problem = await ask()
    assert (status, problem["code"], problem["hold_state"]) == (409, "STATE_CONFLICT", "open")
    database.run_blocking(capture, [task])
    database.run_blocking(end_task, task, "completed")
    status, receipt = await ask()
    assert (status, receipt["kind"], receipt["amount"], receipt["task_id"]) == (200, "refund", 30, task)
    assert (await ask())[0] == 409
    assert (await client_of("ada").get("/v1/credits")).json == {"available": 100, "held": 0}
    unknown = await client.post(f"/v1/admin/tasks/{new_id()}/refund", {"reason": "x"})
    assert (unknown.status, unknown.json["code"]) == (404, "NOT_FOUND")


async def test_wrong_orders_are_refused_and_nothing_is_granted(client_of: As) -> None:
    client = client_of("root", "admin")
    right = {"user_id": "ada", "amount": 1, "reason": "x"}
    wrong: list[dict[str, Any]] = [
        {"amount": 1.0}, {"amount": True}, {"amount": "1"}, {"amount": 0}, {"amount": 10**12 + 1}, {"reason": ""},
        {"user_id": ""}, {"user_id": "a\x00b"}, {"reason": "\ud800"}, {"made_by": "somebody else"},
    ]  # fmt: skip
    for change in wrong:
        assert (await client.post("/v1/admin/credits/grant", {**right, **change})).status == 422, change
    assert (await client_of("ada").get("/v1/credits")).json["available"] == 0
    assert (await client.get("/v1/credits/history", limit=501)).status == 422
