"""What operators' actions refuse before anything is done, and how they say it."""

from __future__ import annotations

from typing import Any

import pytest

from longtake import Database, Engine, open_database
from longtake.errors import InvalidActionArgument, UnknownAction
from tests.operators import perform


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
        ("jobs.list", {"limit": 501}, "limit must be at most 500, not '501'"),
        (
            "jobs.list",
            {"state": "waiting"},
            "state must be 'ready', 'running', 'done', 'failed' or",
        ),
        ("jobs.list", {"stat": "ready"}, "stat is not known"),
        ("jobs.show", {}, "id is missing"),
        ("jobs.show", {"id": "1"}, "id must be an id such as 0199c1f2-7a40-7cc3-98c4-dc0c0c07398f, not '1'"),
        ("jobs.retry", {"ids": []}, "ids must have 1 or more entries, not '[]'"),
        ("jobs.cancel", {"ids": ["0"]}, "ids must be an id such as 0199c1f2-7a40-7cc3-98c4-dc0c0c07398f, not '0'"),
        ("lanes.set", {"name": "x", "max_running": 0}, "max_running must be at least 1, not '0'"),
        ("lanes.set", {"name": "x", "spacing_seconds": -1}, "spacing_seconds must be more than 0, not '-1'"),
        ("lanes.pause", {"names": "posters"}, "names must be a list, not 'posters'"),
        ("alerts.acknowledge", {"ids": ["0199c1f2-7a40-7cc3-98c4-dc0c0c07398f"]}, "by is missing"),
    ],
)
async def test_a_wrong_argument_is_named(engine: Engine, action: str, arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidActionArgument) as refused:
        await perform(engine, action, arguments)
    assert message in refused.value.message
    assert "nput should" not in refused.value.message
    assert refused.value.message.startswith(f"{action}: ")
    assert refused.value.hint.startswith(f"Arguments of {action}: ")


async def test_an_unknown_action_is_named_with_the_nearest(engine: Engine) -> None:
    with pytest.raises(UnknownAction) as refused:
        await perform(engine, "job.list", {})
    assert "'job.list'" in refused.value.message
    assert "jobs.list" in refused.value.hint
