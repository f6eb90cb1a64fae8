"""What operators' actions refuse before anything is done, and how they say it."""

from __future__ import annotations

from typing import Any

import pytest

from longtake import Database, Engine, open_database
from longtake.errors import InvalidActionArgument, UnknownAction
from longtake.server.operator import perform


@pytest.fixture
def database(sqlite_url: str) -> Any:
    """Arguments are checked before the database is asked, so one kind of database is enough."""
    opened = open_database(sqlite_url)
    yield opened
    opened.close()


@pytest.fixture
def engine(database: Database) -> Engine:
    return Engine(database)


@pytest.mark.parametrize(
    ("action", "arguments", "message"),
    [
        ("jobs.list", {"limit": 501}, "limit is '501'"),
        ("jobs.list", {"state": "waiting"}, "state is 'waiting'"),
        ("jobs.list", {"stat": "ready"}, "stat is not known"),
        ("jobs.show", {}, "id is missing"),
        ("jobs.show", {"id": "1"}, "id is '1': it must be an id"),
        ("jobs.retry", {"ids": []}, "ids"),
        ("jobs.cancel", {"ids": ["0"]}, "ids is '0': it must be an id"),
        ("lanes.set", {"name": "x", "max_running": 0}, "max_running is '0'"),
        ("lanes.set", {"name": "x", "spacing_seconds": -1}, "spacing_seconds is '-1'"),
        ("lanes.pause", {"names": "posters"}, "names is 'posters'"),
        ("alerts.acknowledge", {"ids": ["0199c1f2-7a40-7cc3-98c4-dc0c0c07398f"]}, "by is missing"),
    ],
)
async def test_a_wrong_argument_is_named(engine: Engine, action: str, arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidActionArgument) as refused:
        await perform(engine, action, arguments)
    assert message in refused.value.message
    assert refused.value.message.startswith(f"{action}: ")
    assert "Its arguments: " in refused.value.hint


async def test_an_unknown_action_is_named_with_the_nearest(engine: Engine) -> None:
    with pytest.raises(UnknownAction) as refused:
        await perform(engine, "job.list", {})
    assert "'job.list'" in refused.value.message
    assert "jobs.list" in refused.value.hint
