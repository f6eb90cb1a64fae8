"""The vault on both databases: its life, wrong keys, rotation, and that nothing is ever written in clear."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from sqlalchemy import update

from longtake.errors import NotFound
from longtake.services.vault.errors import VaultKeyWrong
from longtake.services.vault.vault import SealingKey, secrets
from tests.vault.stage import CANARY, rows, vault_of

if TYPE_CHECKING:
    from pathlib import Path

    from longtake import Database, Transaction

OLD, NEW = "the old key of thirty-two characters", "the new key of thirty-two characters"


async def test_a_secret_is_kept_changed_listed_and_removed(database: Database, tmp_path: Path) -> None:
    vault = vault_of(tmp_path)
    assert await database.read(vault.get, "kie_api_key") is None
    await database.run(vault.put, "kie_api_key", "first")
    await database.run(vault.put, "kie_api_key", "second")
    await database.run(vault.put, "gemini_api_key", "ünïcode \N{SNOWMAN}")
    assert await database.read(vault.get, "kie_api_key") == "second"
    assert await database.read(vault.get, "gemini_api_key") == "ünïcode \N{SNOWMAN}"
    assert [one["name"] for one in await database.read(vault.names)] == ["gemini_api_key", "kie_api_key"]
    await database.run(vault.remove, "kie_api_key")
    assert await database.read(vault.get_all) == {"gemini_api_key": "ünïcode \N{SNOWMAN}"}
    with pytest.raises(NotFound):
        await database.run(vault.remove, "kie_api_key")


async def test_another_process_with_the_same_secret_reads_it(database: Database, tmp_path: Path) -> None:
    await database.run(vault_of(tmp_path).put, "kie_api_key", CANARY)
    assert await database.read(vault_of(tmp_path).get, "kie_api_key") == CANARY


async def test_nothing_stands_in_the_row_in_clear_and_twice_the_same_does_not_look_the_same(
    database: Database, tmp_path: Path
) -> None:
    vault = vault_of(tmp_path)
    await database.run(vault.put, "kie_api_key", CANARY)
    await database.run(vault.put, "gemini_api_key", CANARY)
    first, second = await database.read(rows)
    assert CANARY not in str((first, second))
    assert CANARY not in str(await database.read(vault.names))
    assert first[2] != second[2]


async def test_a_row_that_was_moved_or_changed_does_not_open(database: Database, tmp_path: Path) -> None:
    vault = vault_of(tmp_path)
    await database.run(vault.put, "kie_api_key", "cheap")
    await database.run(vault.put, "gemini_api_key", "precious")

    def swap(tx: Transaction) -> None:
        sealed = {row[0]: row[2] for row in rows(tx)}
        tx.execute(update(secrets).where(secrets.c.name == "kie_api_key").values(sealed=sealed["gemini_api_key"]))

    await database.run(swap)
    with pytest.raises(VaultKeyWrong, match="kie_api_key"):
        await database.read(vault.get, "kie_api_key")
    assert await database.read(vault.get, "gemini_api_key") == "precious"


@pytest.mark.parametrize("sealed", ["", "AAAA", "not base64!", "A" * 200])
def test_whatever_stands_there_never_raises(sealed: str) -> None:
    assert SealingKey(b"k" * 32).open("name", sealed) is None


def test_every_bit_counts() -> None:
    key = SealingKey(b"k" * 32)
    sealed = key.seal("name", CANARY)
    assert key.open("name", sealed) == CANARY
    for position in range(0, len(sealed) - 2, 7):
        other = "A" if sealed[position] != "A" else "B"
        assert key.open("name", sealed[:position] + other + sealed[position + 1 :]) is None
    assert key.open("names", sealed) is None
    assert SealingKey(b"K" * 32).open("name", sealed) is None


async def test_a_wrong_key_opens_nothing_and_overwrites_nothing(database: Database, tmp_path: Path) -> None:
    """A27: a wrong key."""
    right, wrong = vault_of(tmp_path / "right"), vault_of(tmp_path / "wrong")
    await database.run(right.put, "kie_api_key", CANARY)
    before = await database.read(rows)
    with pytest.raises(VaultKeyWrong, match="kie_api_key") as refused:
        await database.read(wrong.check)
    assert "LONGTAKE_MASTER_KEY" in refused.value.hint
    for name in ("kie_api_key", "gemini_api_key"):
        with pytest.raises(VaultKeyWrong):
            await database.run(wrong.put, name, "new")
    with pytest.raises(VaultKeyWrong):
        await database.run(wrong.rotate)
    with pytest.raises(VaultKeyWrong):
        await database.read(wrong.get, "kie_api_key")
    assert await database.read(rows) == before
    await database.read(right.check)
    await database.run(wrong.remove, "kie_api_key")
    await database.read(wrong.check)


async def test_a_new_key_takes_over_from_the_old_one(database: Database, tmp_path: Path) -> None:
    """A26: rotation of keys."""
    await database.run(vault_of(tmp_path, OLD).put, "kie_api_key", CANARY)
    both = vault_of(tmp_path, f"{NEW}, {OLD}")
    await database.run(both.put, "gemini_api_key", "made with the new one")
    assert await database.read(both.get, "kie_api_key") == CANARY
    assert await database.run(both.rotate) == ["kie_api_key"]
    assert await database.run(both.rotate) == []
    new = vault_of(tmp_path, NEW)
    assert await database.read(new.get_all) == {"gemini_api_key": "made with the new one", "kie_api_key": CANARY}
    with pytest.raises(VaultKeyWrong):
        await database.read(vault_of(tmp_path, OLD).check)


async def test_a_master_key_takes_over_from_the_machines_own_secret(database: Database, tmp_path: Path) -> None:
    """A26: rotation of keys."""
    await database.run(vault_of(tmp_path).put, "kie_api_key", CANARY)
    both = vault_of(tmp_path, NEW)
    assert await database.read(both.get, "kie_api_key") == CANARY
    assert await database.run(both.rotate) == ["kie_api_key"]
    elsewhere = vault_of(tmp_path / "without", NEW)
    assert await database.read(elsewhere.get, "kie_api_key") == CANARY
    assert not (tmp_path / "without").exists()


async def test_a_rotation_that_cannot_open_one_changes_none(database: Database, tmp_path: Path) -> None:
    await database.run(vault_of(tmp_path / "a", OLD).put, "gemini_api_key", CANARY)

    def foreign(tx: Transaction) -> None:
        sealed = SealingKey(b"f" * 32).seal("kie_api_key", "x")
        values = {"name": "kie_api_key", "key_id": "foreign", "sealed": sealed}
        tx.execute(secrets.insert().values(**values))

    await database.run(foreign)
    before = await database.read(rows)
    with pytest.raises(VaultKeyWrong, match=r": kie_api_key\."):
        await database.run(vault_of(tmp_path / "a", f"{NEW},{OLD}").rotate)
    assert await database.read(rows) == before


async def test_an_empty_vault_needs_no_key(database: Database, tmp_path: Path) -> None:
    vault = vault_of(tmp_path / "nothing")
    await database.read(vault.check)
    assert await database.read(vault.get_all) == {}
    assert not (tmp_path / "nothing").exists()
