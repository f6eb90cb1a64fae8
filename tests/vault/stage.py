"""What tests of the vault have in common."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sqlalchemy import select

from longtake.services.vault.root_secret import RootSecret
from longtake.services.vault.vault import Vault, secrets
from longtake.settings import Settings

if TYPE_CHECKING:
    from pathlib import Path

    from longtake import Transaction

CANARY = "canary-5f2c-never-to-be-seen"


def vault_of(folder: Path, master_key: str = "") -> Vault:
    """Return the vault of a process with this data folder and this setting."""
    settings = Settings.model_validate({"data_dir": folder, "master_key": master_key})
    return Vault.of(settings, RootSecret.of(settings))


def rows(tx: Transaction) -> list[tuple[Any, ...]]:
    return [tuple(row) for row in tx.execute(select(secrets.c.name, secrets.c.key_id, secrets.c.sealed))]
