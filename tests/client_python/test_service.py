"""Both clients against a real server, a real worker and the sandbox: the same cases."""

from __future__ import annotations

import asyncio
import re
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from PIL import Image

from longtake.client import LongtakeApiError
from tests.client_python.stage import done, every, first
from tests.wait import until

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.client_python.conftest import Service

ROOT = Path(__file__).parent.parent.parent
UNKNOWN_ID = "0199c1f2-7a40-7cc3-98c4-dc0c0c07398f"


async def test_an_image_is_made_followed_and_downloaded(
    service: Service, make_client: Callable[..., Any], tmp_path: Path
) -> None:
    client = make_client(service.server.url, service.token)
    before = await done(client.balance())
    task = await done(client.generate("a red fox in snow", parameters={"aspect_ratio": "16:9"}))
    assert (task["status"], task["type"], task["parameters"]["aspect_ratio"]) == ("pending", "image", "16:9")
    states = await every(client.follow(task["id"]))
    assert states[-1]["status"] == "completed"
    assert all(state["ended_at"] is None for state in states[:-1])
    path = await done(client.download(states[-1]["results"][0], tmp_path))
    with Image.open(path) as picture:
        assert picture.width > picture.height
    after = await done(client.balance())
    assert before["available"] - after["available"] == task["credits"]["price"]


async def test_waiting_returns_the_ended_task(service: Service, make_client: Callable[..., Any]) -> None:
    client = make_client(service.server.url, service.token)
    task = await done(client.generate("a lighthouse", model="nano-banana", wait=True))
    assert (task["status"], len(task["results"])) == ("completed", 1)
    # One that has ended is followed as well: it is shown once.
    assert [one["id"] for one in await every(client.follow(task["id"]))] == [task["id"]]


async def test_the_same_key_is_the_same_task(service: Service, make_client: Callable[..., Any]) -> None:
    client = make_client(service.server.url, service.token)
    key = f"a key of {type(client).__name__}"
    tasks = [await done(client.generate("a fox", model="nano-banana", idempotency_key=key)) for _time in range(2)]
    assert tasks[0]["id"] == tasks[1]["id"]
    with pytest.raises(LongtakeApiError) as raised:
        await done(client.generate("another fox", model="nano-banana", idempotency_key=key))
    assert raised.value.code == "IDEMPOTENCY_KEY_REUSED"


async def test_tasks_are_listed_cancelled_and_tried_again(service: Service, make_client: Callable[..., Any]) -> None:
    client = make_client(service.server.url, service.token)
    service.sandbox.settings(seconds={"image": 60})
    try:
        task = await done(client.generate("a slow fox"))
        assert task["id"] in [one["id"] for one in await done(client.tasks.pending())]
        assert (await done(client.tasks.cancel(task["id"])))["status"] == "cancelled"
    finally:
        service.sandbox.settings(seconds={"image": 0.3})
    assert [one["id"] for one in (await done(client.tasks.list(status=["cancelled"], limit=1)))["tasks"]] == [
        task["id"]
    ]
    again = await done(client.tasks.retry(task["id"]))
    assert again["retry_of"] == task["id"]
    assert (await every(client.follow(again["id"])))[-1]["status"] == "completed"
    page = await done(client.tasks.list(type="image", limit=1))
    older = await done(client.tasks.list(before=page["next"], limit=1))
    assert page["tasks"][0]["id"] == again["id"] != older["tasks"][0]["id"]
    with pytest.raises(LongtakeApiError) as raised:
        await done(client.tasks.get(UNKNOWN_ID))
    assert (raised.value.status, raised.value.code) == (404, "NOT_FOUND")


async def test_a_reference_is_uploaded(service: Service, make_client: Callable[..., Any], tmp_path: Path) -> None:
    client = make_client(service.server.url, service.token)
    for kind in ("png", "jpeg", "webp"):
        file = tmp_path / f"fox.{kind}"
        Image.new("RGB", (96, 64), "red").save(file)
        for given in (file, file.read_bytes()):
            asset = await done(client.upload_reference(given))
            assert (asset["role"], asset["content_type"]) == ("reference", f"image/{kind}")
    with pytest.raises(LongtakeApiError) as raised:
        await done(client.upload_reference(b"no picture"))
    assert raised.value.code == "MEDIA_REFUSED"


async def test_a_snapshot_and_the_events_after_it_tell_everything(
    service: Service, make_client: Callable[..., Any]
) -> None:
    client = make_client(service.server.url, service.token)
    snapshot = await done(client.snapshot())
    assert snapshot["user_id"] == "ann"
    assert await done(client.me()) == {"user_id": "ann", "role": "user", "scopes": ["generate", "read"]}
    task = await done(client.generate("a fox in the feed", wait=True))
    # Tasks of tests before this one may still be told of.
    events = client.events(snapshot["cursor"], types=["task.*"])
    mine = await first(events, 2, lambda event: event.subject == task["id"])
    assert [event.type for event in mine] == ["task.created", "task.running"]
    assert task["id"] in [one["id"] for one in (await done(client.snapshot()))["recent"]]


async def test_webhooks_are_made_changed_and_removed(service: Service, make_client: Callable[..., Any]) -> None:
    client = make_client(service.server.url, service.token)
    made = await done(client.webhooks.create("http://127.0.0.1:9/hook", events=["key.*"], description="a test"))
    assert made["secret"].startswith("whsec_")
    changed = await done(client.webhooks.update(made["id"], enabled=False))
    assert (changed["enabled"], "secret" in changed) == (False, False)
    assert [one["id"] for one in await done(client.webhooks.list())] == [made["id"]]
    assert (await done(client.webhooks.rotate(made["id"])))["secret"] != made["secret"]
    assert (await done(client.webhooks.get(made["id"])))["description"] == "a test"
    assert (await done(client.webhooks.deliveries(made["id"], limit=5)))["deliveries"] == []
    await done(client.webhooks.delete(made["id"]))
    assert await done(client.webhooks.list()) == []


async def test_a_delivery_is_tried_again(service: Service, make_client: Callable[..., Any]) -> None:
    client = make_client(service.server.url, service.token)
    # A test delivery comes whatever the filter says, and nothing of the tests before it does.
    made = await done(client.webhooks.create("http://127.0.0.1:9/hook", events=["key.*"]))
    sent = await done(client.webhooks.test(made["id"]))

    async def failed() -> bool:
        delivery = await done(client.webhooks.delivery(made["id"], sent["id"]))
        return bool(delivery["state"] == "failed" and delivery["payload"] == sent["payload"])

    await until(failed, "the delivery has failed")
    [listed] = (await done(client.webhooks.deliveries(made["id"], state="failed")))["deliveries"]
    assert listed["id"] == sent["id"]
    again = await done(client.webhooks.redeliver(made["id"], sent["id"]))
    assert (again["id"], again["state"]) == (sent["id"], "pending")
    await done(client.webhooks.delete(made["id"]))


async def test_tasks_and_conversations_are_deleted(service: Service, make_client: Callable[..., Any]) -> None:
    client = make_client(service.server.url, service.token)
    task = await done(client.generate("a fox that goes", wait=True))
    assert await done(client.tasks.delete(task["id"])) is None
    for call in (client.tasks.get, client.tasks.delete, client.conversations.delete, client.assets.delete):
        with pytest.raises(LongtakeApiError) as raised:
            await done(call(task["id"]))
        assert raised.value.code == "NOT_FOUND"


async def test_a_wrong_token_is_refused(service: Service, make_client: Callable[..., Any]) -> None:
    with pytest.raises(LongtakeApiError) as raised:
        await done(make_client(service.server.url, "wrong").models())
    assert (raised.value.status, raised.value.code) == (401, "UNAUTHORIZED")


async def test_many_tasks_are_followed_at_once_by_one_loop(service: Service, make_client: Callable[..., Any]) -> None:
    client = make_client(service.server.url, service.token)
    calls = [client.generate(f"fox number {number}", model="nano-banana") for number in range(5)]
    tasks = [await done(call) for call in calls] if not asyncio.iscoroutine(calls[0]) else await asyncio.gather(*calls)
    ended = [one for one in await every(client.follow(*(task["id"] for task in tasks))) if one["ended_at"]]
    assert sorted(one["id"] for one in ended) == sorted(task["id"] for task in tasks)
    assert {one["status"] for one in ended} == {"completed"}


def test_the_program_of_the_document_runs(service: Service, tmp_path: Path) -> None:
    text = (ROOT / "docs" / "python-client.md").read_text(encoding="utf-8")
    program = re.findall(r"```python\n(.*?)```", text, flags=re.DOTALL)[0]
    program = program.replace("http://127.0.0.1:8484", service.server.url)
    program = program.replace("a token or an API key", service.token)
    shown = subprocess.run([sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert shown.returncode == 0, shown.stderr
    assert "\ncompleted " in shown.stdout
    assert [file.suffix for file in tmp_path.iterdir()] == [".png"]
