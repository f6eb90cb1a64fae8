"""Where adapters get a provider's key."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from longtake.db.errors import DatabaseUnavailable
from longtake.services.vault.root_secret import RootSecret
from longtake.services.vault.vault import KeySource, SealingKey, secrets
from longtake.settings import Settings
from tests.vault.stage import vault_of
from tests.wait import until

if TYPE_CHECKING:
    from pathlib import Path

    from longtake import Database, Transaction


async def test_a_key_comes_from_the_settings_first_and_from_the_vault_else(database: Database, tmp_path: Path) -> None:
    vault = vault_of(tmp_path)
    settings = Settings.model_validate({"kie_api_key": "from the settings"})
    keys = KeySource(settings, vault, database)
    assert (keys("kie_api_key"), keys("gemini_api_key"), keys("no_such_key")) == ("from the settings", "", "")
    await database.run(vault.put, "kie_api_key", "from the vault")
    await database.run(vault.put, "gemini_api_key", "from the vault")
    await keys.refresh()
    assert (keys("kie_api_key"), keys("gemini_api_key")) == ("from the settings", "from the vault")
    await database.run(vault.remove, "gemini_api_key")
    await keys.refresh()
    assert keys("gemini_api_key") == ""


async def test_settings_that_are_no_secrets_are_not_given_out_as_keys(database: Database, tmp_path: Path) -> None:
    assert KeySource(Settings(), vault_of(tmp_path), database)("database_url") == ""


async def test_one_secret_that_cannot_be_opened_does_not_hide_the_others(database: Database, tmp_path: Path) -> None:
    await database.run(vault_of(tmp_path / "a").put, "kie_api_key", "x")
    vault = vault_of(tmp_path / "b")

    def put_beside(tx: Transaction) -> None:
        key = SealingKey(RootSecret("", tmp_path / "b").derive("vault"))
        sealed = key.seal("gemini_api_key", "readable")
        tx.execute(secrets.insert().values(name="gemini_api_key", key_id=key.id, sealed=sealed))

    await database.run(put_beside)
    keys = KeySource(Settings(), vault, database)
    await keys.refresh()
    assert (keys("kie_api_key"), keys("gemini_api_key")) == ("", "readable")


async def test_a_change_that_could_not_be_acted_on_is_acted_on_next_time(database: Database, tmp_path: Path) -> None:
    told: list[str] = []

    async def fail_once() -> None:
        told.append(keys("kie_api_key"))
        if len(told) == 1:
            raise DatabaseUnavailable("away")

    vault = vault_of(tmp_path)
    keys = KeySource(Settings(), vault, database, fail_once)
    await database.run(vault.put, "kie_api_key", "new")
    with pytest.raises(DatabaseUnavailable):
        await keys.refresh()
    await keys.refresh()
    await keys.refresh()
    assert told == ["new", "new"]


async def test_keys_are_kept_fresh_while_the_process_runs(database: Database, tmp_path: Path) -> None:
    vault = vault_of(tmp_path)
    keys = KeySource(Settings(), vault, database)
    await database.run(vault.put, "kie_api_key", "first")
    async with keys.kept_fresh(seconds=0.01):
        assert keys("kie_api_key") == "first"
        await database.run(vault.put, "kie_api_key", "second")
        await until(lambda: keys("kie_api_key"), "the second key", lambda key: key == "second")
