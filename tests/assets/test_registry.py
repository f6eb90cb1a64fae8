"""Registering assets, and finding them again."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from sqlalchemy import text

from longtake.clock import new_id
from longtake.services.assets import NewAsset, assets_of_tasks, find_assets, register_assets, show_asset
from longtake.services.assets.schemas import SAVE_STATES
from tests.assets.stage import USER, Stage

if TYPE_CHECKING:
    from longtake import Transaction
    from tests.databases import StoppedClock

FIRST, SECOND = new_id(), new_id()


def result(task_id: str, position: int, **options: object) -> NewAsset:
    values = {"user_id": USER, "kind": "image", "task_id": task_id, "position": position}
    return NewAsset(**{"source_url": f"https://example.com/{position}.png"} | values | options)  # type: ignore[arg-type]


async def test_many_are_registered_together_and_found_by_task_in_their_order(stage: Stage, clock: StoppedClock) -> None:
    news = [
        result(FIRST, 1),
        result(SECOND, 0, source_url=None, key="results/a/b.png", size=3),
        result(FIRST, 0, source_expires_in=60.0),
        result(FIRST, 2, source_expires_in=None),
    ]
    ids = await stage.database.run(register_assets, news, "request-1")
    assert ids == [new.id for new in news]
    found = await stage.database.read(assets_of_tasks, [FIRST, SECOND, new_id()])
    assert {task: [one.position for one in some] for task, some in found.items()} == {FIRST: [0, 1, 2], SECOND: [0]}
    ends = [one.source_expires_at and (one.source_expires_at - clock.now()).total_seconds() for one in found[FIRST]]
    assert ends == [60.0, 600.0, None]
    assert found[SECOND][0].source_expires_at is None
    assert found[SECOND][0].mirrored_at == clock.now()
    jobs = await stage.claim()
    assert sorted(job.args["asset"] for job in jobs) == sorted(one.id for one in found[FIRST])
    assert {job.request_id for job in jobs} == {"request-1"}


async def test_assets_of_somebody_else_are_not_found(stage: Stage) -> None:
    [asset_id] = await stage.database.run(register_assets, [result(FIRST, 0)])
    assert await stage.database.read(assets_of_tasks, [FIRST], "bob") == {}
    assert await stage.database.read(find_assets, [asset_id], "bob") == {}
    assert set(await stage.database.read(find_assets, [asset_id], USER)) == {asset_id}
    assert set(await stage.database.read(assets_of_tasks, [FIRST], USER)) == {FIRST}


async def test_one_task_has_one_result_at_each_position(stage: Stage) -> None:
    await stage.database.run(register_assets, [result(FIRST, 0)])
    with pytest.raises(Exception, match=r"(?i)unique"):
        await stage.database.run(register_assets, [result(FIRST, 0)])
    assert len(await stage.claim()) == 1


CHANGE = "UPDATE assets SET mirror_state = :state, key = :key, mirror_error = :error, bytes_done = 7"


async def test_callers_know_every_state_by_a_word_of_theirs(stage: Stage) -> None:
    [asset_id] = await stage.database.run(register_assets, [result(FIRST, 0)])
    for state, word in SAVE_STATES.items():

        def change(tx: Transaction, state: str = state) -> None:
            key = "results/x/y.png" if state == "completed" else None
            values = {"state": state, "key": key, "error": "CODE: the sentence"}
            tx.execute(text(CHANGE), values)

        await stage.database.run(change)
        shown = show_asset(await stage.asset(asset_id), None)
        assert (shown["save_state"], shown["save_error"], shown["save_message"]) == (word, "CODE", None)
        under_way = state in {"downloading", "uploading"}
        assert (shown["save_phase"], shown["bytes_done"]) == ((state, 7) if under_way else (None, None))

    def answer(tx: Transaction) -> None:
        tx.execute(text(CHANGE), {"state": "pending", "key": None, "error": "SOURCE_GONE: It answers 404."})

    await stage.database.run(answer)
    shown = show_asset(await stage.asset(asset_id), None)
    # Only what the source itself answered is repeated: other sentences may name internals.
    assert (shown["save_error"], shown["save_message"]) == ("SOURCE_GONE", "It answers 404.")
    assert set(SAVE_STATES.values()) == {"none", "pending", "success", "failed", "expired"}
