"""What is kept: deliveries for so many days, secrets under whichever key is the vault's first."""

from __future__ import annotations

import asyncio
import threading

import pytest
from standardwebhooks import Webhook

from longtake.services.vault.errors import VaultKeyWrong
from longtake.services.vault.vault import Vault
from longtake.services.webhooks.jobs import prune_kind, prune_page
from tests.operators import perform
from tests.webhooks.stage import KEY, Stage


async def test_old_deliveries_are_removed_unless_they_are_still_to_be_made(stage: Stage) -> None:
    mine = await stage.create()
    await stage.tell("task.created", "task.completed")
    await stage.dispatcher.round()
    [job, _waiting] = await stage.claim()
    await stage.try_job(job)
    assert await stage.database.run(prune_page, 1.0) == 0
    assert len(await stage.deliveries(mine["id"])) == 2
    # Negative days: as if it were tomorrow, since ids are made of the real time.
    assert await stage.database.run(prune_page, -1.0) == 1
    assert [one["state"] for one in await stage.deliveries(mine["id"])] == ["pending"]


async def test_pages_are_removed_until_nothing_old_is_left(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("longtake.services.webhooks.jobs.PRUNE_PAGE", 2)
    mine = await stage.create()
    await stage.tell(*["task.completed"] * 5)
    await stage.dispatcher.round()
    jobs = await stage.claim()
    for job in jobs:
        await stage.try_job(job)
    await prune_kind(stage.database, -1.0).handler(jobs[0])
    assert await stage.deliveries(mine["id"]) == []


async def test_rotating_the_vaults_key_takes_webhooks_along(stage: Stage) -> None:
    mine = await stage.create()
    await stage.webhooks.rotate("ann", mine["id"])
    both, only = Vault(lambda: [b"n" * 32, KEY]), Vault(lambda: [b"n" * 32])
    with pytest.raises(VaultKeyWrong):
        await perform(stage.engine, "secrets.rotate", {}, vault=only)
    name = f"webhooks/{mine['id']}"
    assert await perform(stage.engine, "secrets.rotate", {}, vault=both) == {"rotated": [name]}
    assert await perform(stage.engine, "secrets.rotate", {}, vault=both) == {"rotated": []}
    stage.delivering._vault = only
    await stage.tell("task.completed")
    await stage.dispatcher.round()
    await stage.try_once()
    assert len(stage.receiver.received[0].headers["webhook-signature"].split(" ")) == 2


async def test_a_secret_that_is_changed_while_the_vaults_key_is_rotated_stays_changed(stage: Stage) -> None:
    mine = await stage.create()
    loop, begun, go_on = asyncio.get_running_loop(), asyncio.Event(), threading.Event()

    class Slow(Vault):
        def seal(self, name: str, value: str) -> str:
            loop.call_soon_threadsafe(begun.set)
            # The user's change has to wait behind the lock, which nothing shows from outside: only so long.
            go_on.wait(0.5)
            return super().seal(name, value)

    vault = Slow(lambda: [b"n" * 32, KEY])
    rotating = asyncio.create_task(perform(stage.engine, "secrets.rotate", {}, vault=vault))
    await begun.wait()
    changed = await stage.webhooks.rotate("ann", mine["id"])
    go_on.set()
    await rotating

    stage.delivering._vault = vault
    await stage.tell("task.completed")
    await stage.dispatcher.round()
    await stage.try_once()
    [request] = stage.receiver.received
    Webhook(changed["secret"]).verify(request.body, dict(request.headers))
