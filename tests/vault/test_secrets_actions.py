"""Secrets as operators set them: what they leave behind, and what is told when one is refused."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from longtake import Engine, open_database
from longtake.engine.events import read_events
from longtake.errors import InvalidActionArgument
from tests.engine.stage import until_readable
from tests.operators import perform
from tests.vault.stage import CANARY, rows, vault_of

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from longtake import Database


@pytest.fixture
def sqlite_database(sqlite_url: str) -> Iterator[Database]:
    opened = open_database(sqlite_url)
    yield opened
    opened.close()


async def test_operators_set_secrets_and_the_log_of_what_they_did_has_no_value(
    database: Database, tmp_path: Path
) -> None:
    engine, vault = Engine(database), vault_of(tmp_path)
    done = await perform(engine, "secrets.set", {"name": "kie_api_key", "value": f" {CANARY}\n"}, vault=vault)
    listed = await perform(engine, "secrets.list", {}, vault=vault)
    assert await database.read(vault.get, "kie_api_key") == CANARY
    await until_readable(database)
    (event,) = await database.read(read_events)
    assert event.data == {"arguments": {"name": "kie_api_key", "value": "***"}}
    assert CANARY not in f"{done}{listed}{event}"


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("kie_api_kee", CANARY),
        ("kie_api_key", f"{CANARY}\nX-Other: header"),
        ("kie_api_key", ""),
        ("kie_api_key", [CANARY]),
        ("kie_api_key", {"value": CANARY}),
        ("kie_api_key", CANARY * 1000),
        (CANARY, None),
    ],
)
async def test_a_refused_secret_is_not_repeated(
    sqlite_database: Database, tmp_path: Path, name: str, value: Any
) -> None:
    """A28: secrets in errors, logs and files."""
    arguments = {"name": name, "value": value}
    with pytest.raises(InvalidActionArgument) as refused:
        await perform(Engine(sqlite_database), "secrets.set", arguments, vault=vault_of(tmp_path))
    shown = refused.value.message.replace(f"not '{name}'", "") + refused.value.hint
    assert CANARY not in shown
    assert await sqlite_database.read(rows) == []
