"""A copy that ends while it is asked for again: two transactions that want the job and the row in one order."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import pytest

from longtake.capabilities.media.store import retry_asset
from tests.assets.stage import PNG, USER
from tests.crossing import ending, meet
from tests.outside import SQLITE

if TYPE_CHECKING:
    from tests.assets.stage import Stage


@pytest.fixture(autouse=True)
def _several_writers(database_url: str) -> None:
    if database_url.startswith(SQLITE):
        pytest.skip("SQLite has one writer at a time")


@pytest.mark.parametrize("force", [False, True])
async def test_a_copy_that_is_asked_for_while_one_ends_waits_for_no_job(
    stage: Stage, deadlocks: list[BaseException], force: bool
) -> None:
    stage.source.files["/result.png"] = PNG
    asset_id = await stage.register()
    [job] = await stage.claim()
    outcome = await stage.kind.handler(job)
    database, engine = stage.database, stage.engine

    await meet(
        database,
        ending(engine, job, outcome),
        lambda: database.run(partial(retry_asset, force=force), engine, USER, asset_id),
    )
    assert deadlocks == []
    rows = await database.read(lambda tx: tx.sql("SELECT mirror_state FROM assets"))
    assert rows == [("completed",)]
