"""Tasks, conversations and accounts that are deleted: with all that is theirs, and nothing of anybody else's (X6)."""

from __future__ import annotations

import asyncio
import threading
from typing import TYPE_CHECKING, Any

import pytest

from longtake.capabilities.generation.removal import Retention, delete_conversation, delete_task
from longtake.capabilities.generation.submissions import check_request
from longtake.capabilities.generation.task_assets import TaskAssets
from longtake.capabilities.generation.tasks import NewTask, create_task
from longtake.capabilities.media.imports import add_reference
from longtake.clock import new_id
from longtake.errors import NotFound, StateConflict
from longtake.services.accounts.api_keys import create_key, make_key
from longtake.services.accounts.deletion import AccountDeletion
from longtake.services.conversations.store import create_conversation
from longtake.services.webhooks.endpoints import create_endpoint
from tests.api.stage import picture
from tests.credits.stage import audit
from tests.generation.studio import CREDITS, USER
from tests.storages import keys_in
from tests.wait import PATIENCE_SECONDS

if TYPE_CHECKING:
    from collections.abc import Callable

    from longtake import Transaction
    from tests.generation.studio import Studio

BOB = "bob"
#: Everything that is a user's own and goes with the account.
OWN = ("tasks", "assets", "conversations", "messages", "api_keys", "webhook_endpoints", "idempotency_keys")
HALF_WAY_SECONDS = 0.5


async def saved(studio: Studio, user: str = USER, conversation: str | None = None) -> str:
    """Have a task made and its result saved; return its id."""
    task_id = await studio.submit(user=user, conversation=conversation, key=new_id())
    await studio.follow(task_id)
    for _ in range(3):
        await studio.step()
    return task_id


async def conversation_of(studio: Studio, user: str = USER) -> str:
    return str((await studio.database.run(create_conversation, user))["id"])


async def objects(studio: Studio) -> list[str]:
    folders = ("results", "references", "thumbnails", "previews")
    return [key for folder in folders for key in await keys_in(studio.context.storage, folder)]


async def count(studio: Studio, table: str, user: str = USER) -> int:
    [(number,)] = await studio.sql(f"SELECT count(*) FROM {table} WHERE user_id = :user", user=user)
    return int(number)


async def findings(studio: Studio) -> Any:
    return await studio.database.read(audit)


async def delete(studio: Studio, function: Callable[..., None], *arguments: str) -> None:
    await studio.database.run(function, studio.engine, *arguments)


async def test_deleting_a_task_deletes_its_messages_its_results_and_their_files(studio: Studio) -> None:
    """X6: deletion."""
    conversation = await conversation_of(studio)
    gone, kept = await saved(studio, conversation=conversation), await saved(studio, conversation=conversation)
    before, balance = await objects(studio), await studio.balance()
    await delete(studio, delete_task, USER, gone)
    with pytest.raises(NotFound):
        await studio.generation.show(USER, gone)
    assert [await count(studio, one) for one in ("tasks", "assets", "messages")] == [1, 1, 2]
    assert await studio.sql("SELECT unread FROM conversations") == [(1,)]
    assert await objects(studio) == before
    await studio.step()
    left = await objects(studio)
    assert 0 < len(left) == len(before) / 2
    assert (await studio.generation.show(USER, kept))["results"][0]["save_state"] == "success"
    assert (await studio.events(gone))[-1] == "task.deleted"
    assert await studio.balance() == balance
    assert await findings(studio) == []
    with pytest.raises(NotFound):
        await delete(studio, delete_task, USER, gone)


async def test_a_task_under_way_must_be_cancelled_first(studio: Studio) -> None:
    task_id = await studio.submit()
    with pytest.raises(StateConflict, match="only a task that has ended") as caught:
        await delete(studio, delete_task, USER, task_id)
    assert caught.value.hint == "Cancel it first."
    await studio.generation.cancel(USER, task_id)
    await delete(studio, delete_task, USER, task_id)
    assert await count(studio, "tasks") == 0
    assert await studio.balance() == (CREDITS, 0)
    assert await findings(studio) == []


async def test_another_users_task_and_conversation_are_as_good_as_none(studio: Studio) -> None:
    conversation = await conversation_of(studio)
    task_id = await saved(studio, conversation=conversation)
    for function, name in ((delete_task, task_id), (delete_conversation, conversation)):
        with pytest.raises(NotFound) as foreign:
            await delete(studio, function, BOB, name)
        with pytest.raises(NotFound) as absent:
            await delete(studio, function, BOB, nothing := new_id())
        assert foreign.value.message.replace(name, "") == absent.value.message.replace(nothing, "")
    assert [await count(studio, one) for one in ("tasks", "conversations", "messages")] == [1, 1, 2]


async def test_a_conversation_goes_with_its_messages_and_ended_tasks(studio: Studio) -> None:
    conversation, other = await conversation_of(studio), await conversation_of(studio)
    gone, kept = await saved(studio, conversation=conversation), await saved(studio, conversation=other)
    await delete(studio, delete_conversation, USER, conversation)
    assert await studio.sql("SELECT CAST(id AS text) FROM conversations") == [(other,)]
    assert await studio.sql("SELECT CAST(id AS text) FROM tasks") == [(kept,)]
    assert await count(studio, "messages") == 2
    await studio.step()
    assert not any(gone in key for key in await objects(studio))
    assert (await studio.events(conversation))[-1] == "conversation.deleted"
    with pytest.raises(NotFound):
        await delete(studio, delete_conversation, USER, conversation)
    assert await findings(studio) == []


async def test_a_conversation_with_a_task_under_way_stays_whole(studio: Studio) -> None:
    conversation = await conversation_of(studio)
    await saved(studio, conversation=conversation)
    await studio.submit(conversation=conversation)
    with pytest.raises(StateConflict, match="has not ended"):
        await delete(studio, delete_conversation, USER, conversation)
    assert [await count(studio, one) for one in ("tasks", "assets", "messages", "conversations")] == [2, 1, 4, 1]


async def test_a_task_that_is_made_while_its_conversation_goes_is_not_left_without(studio: Studio) -> None:
    conversation = await conversation_of(studio)
    model = studio.generation.offered.models["nano-banana"]
    request = check_request(model, "a red fox", {}, [], conversation)
    new = NewTask(USER, request, studio.generation.lane_of(request.model), None)
    written, go_on = threading.Event(), threading.Event()

    def make_slowly(tx: Transaction) -> None:
        create_task(tx, studio.engine, new, studio.generation.limits)
        written.set()
        assert go_on.wait(PATIENCE_SECONDS)

    making = asyncio.create_task(studio.database.run(make_slowly))
    assert await asyncio.to_thread(written.wait, 20)
    deleting = asyncio.create_task(delete(studio, delete_conversation, USER, conversation))
    await asyncio.wait([deleting], timeout=HALF_WAY_SECONDS)
    go_on.set()
    await making
    with pytest.raises(StateConflict):
        await deleting
    assert [await count(studio, one) for one in ("tasks", "conversations", "messages")] == [1, 1, 2]


async def test_of_two_who_delete_the_same_one_does(studio: Studio) -> None:
    task_id = await saved(studio)
    twice = [delete(studio, delete_task, USER, task_id) for _ in range(2)]
    found = await asyncio.gather(*twice, return_exceptions=True)
    assert [type(one) for one in found if one is not None] == [NotFound]
    assert (await studio.events(task_id)).count("task.deleted") == 1


async def reference(studio: Studio, user: str = USER) -> str:
    return (await add_reference(studio.database, studio.context.storage, user, picture(), "image/png")).id


async def test_a_reference_is_kept_while_a_task_may_still_need_it(studio: Studio) -> None:
    used, unused = await reference(studio), await reference(studio)
    [owner] = [one for one in studio.context.every(lambda each: each.asset_owners) if isinstance(one, TaskAssets)]
    task_id = await studio.submit(model="nano-banana-edit", references=[used])
    await studio.database.read(owner.require_unused, USER, unused)
    with pytest.raises(StateConflict, match=task_id):
        await studio.database.read(owner.require_unused, USER, used)
    await studio.generation.cancel(USER, task_id)
    await studio.database.read(owner.require_unused, USER, used)


async def furnish(studio: Studio, user: str) -> None:
    """Give a user one of everything, and a task under way."""
    if user != USER:
        await studio.grant(user, CREDITS)
    conversation = await conversation_of(studio, user)
    await saved(studio, user, conversation)
    await reference(studio, user)
    await studio.submit("not yet [never]", user=user, conversation=conversation, key=new_id())

    def write(tx: Transaction) -> None:
        create_key(tx, make_key(), user, "a key", "user", ["read"])
        create_endpoint(tx, user, new_id(), "https://example.com/", "", [], "sealed")

    await studio.database.run(write)


async def test_deleting_an_account_deletes_all_but_the_ledger(studio: Studio) -> None:
    """X6: deletion."""
    for user in (USER, BOB):
        await furnish(studio, user)
    before = {user: [await count(studio, one, user) for one in OWN] for user in (USER, BOB)}
    assert 0 not in before[USER]
    transfers = await count(studio, "credit_transfers")
    await studio.database.run(studio.context.get(AccountDeletion).begin, studio.engine, USER)
    assert [await count(studio, one) for one in OWN[4:]] == [0, 0, 0]
    # Whoever comes back begins anew.
    studio.clock.advance(1)
    later = await conversation_of(studio)
    while "accounts.delete" in await studio.jobs() or "assets.delete" in await studio.jobs():
        await studio.step()
    assert [await count(studio, one) for one in OWN] == [0, 0, 1, 0, 0, 0, 0]
    assert await studio.sql("SELECT CAST(id AS text) FROM conversations WHERE user_id = :user", user=USER) == [(later,)]
    assert [await count(studio, one, BOB) for one in OWN] == before[BOB]
    bobs = await studio.sql("SELECT CAST(id AS text) FROM assets")
    assert all(any(one in key for (one,) in bobs) for key in await objects(studio))
    # The price of what was under way came back; what was paid stays on record.
    assert (await studio.balance())[1] == 0
    assert await count(studio, "credit_transfers") == transfers + 1
    assert await findings(studio) == []


async def test_a_kill_in_the_middle_of_deleting_an_account_only_delays_it(studio: Studio) -> None:
    await furnish(studio, USER)
    for _ in range(2):
        # Twice is as good as once.
        await studio.database.run(studio.context.get(AccountDeletion).begin, studio.engine, USER)
    leaving = [job for job in await studio.claim() if job.kind == "accounts.delete"]
    for job in leaving:
        # Its worker dies before it can say that it is done.
        await studio.engine.kinds[job.kind].handler(job)
    for job in leaving:
        assert await studio.run(job)
    await studio.step()
    assert [await count(studio, one) for one in OWN] == [0] * len(OWN)
    assert await objects(studio) == []


@pytest.mark.parametrize(("days", "left"), [(0, 3), (30, 2)])
async def test_old_tasks_go_when_a_setting_says_so(studio: Studio, days: int, left: int) -> None:
    # Ids are of the real time, which the studio's clock does not follow.
    studio.clock.advance(10 * 365 * 86_400)
    old = await saved(studio)
    never = await studio.submit("for ever [never]")
    studio.clock.advance(31 * 86_400)
    recent = await saved(studio)
    kind = Retention(studio.database, days).kind()
    [job, *_rest] = await claimed(studio)
    await kind.handler(job)
    found = {row[0] for row in await studio.sql("SELECT CAST(id AS text) FROM tasks")}
    assert found == ({never, recent} if days else {old, never, recent})
    assert len(found) == left
    await studio.step()
    assert await count(studio, "assets") == left - 1
    assert await findings(studio) == []


async def claimed(studio: Studio) -> list[Any]:
    """Claim any job: what a handler gets does not matter here."""
    await studio.database.run(studio.engine.enqueue, "generation.prune")
    return await studio.claim()
