"""Operators' actions on stored secrets. None of them shows a secret."""

from collections.abc import Callable, Sequence
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field, SecretStr

from longtake.actions import Action, Name, Operator
from longtake.db import Transaction
from longtake.engine.engine import Engine
from longtake.services.vault.vault import Vault

Resealer = Callable[[Transaction, Vault], list[str]]
#: The secrets there is a use for.
SecretName = Literal["kie_api_key", "kie_webhook_key", "gemini_api_key", "tmdb_api_key"]


def _check_value(value: SecretStr) -> SecretStr:
    # A line feed at the end comes from a file or an echo, and would end up in a header.
    text = value.get_secret_value().strip()
    if not text or not text.isprintable():
        raise ValueError("must be printable characters, not only space")
    return SecretStr(text)


SecretValue = Annotated[SecretStr, Field(max_length=10_000), AfterValidator(_check_value)]


def secrets_set(
    tx: Transaction, _engine: Engine, vault: Vault, *, name: SecretName, value: SecretValue
) -> dict[str, Any]:
    """Store a secret, encrypted, and replace its old value; processes use it within 5 seconds."""
    vault.put(tx, name, value.get_secret_value())
    return {"set": name}


def secrets_list(tx: Transaction, _engine: Engine, vault: Vault) -> dict[str, Any]:
    """List the names of stored secrets, and when each last changed; never their values."""
    return {"secrets": vault.names(tx)}


def secrets_remove(tx: Transaction, _engine: Engine, vault: Vault, *, name: Name) -> dict[str, Any]:
    """Remove a stored secret, even one that can no longer be decrypted."""
    vault.remove(tx, name)
    return {"removed": name}


def secrets_rotate(tx: Transaction, _engine: Engine, vault: Vault, resealers: Sequence[Resealer]) -> dict[str, Any]:
    """Re-encrypt stored secrets with the first key of LONGTAKE_MASTER_KEY; `rotated` names those that changed."""
    return {"rotated": vault.rotate(tx) + [name for reseal in resealers for name in reseal(tx, vault)]}


OPERATOR = Operator(
    actions=[
        Action("secrets.set", secrets_set, writes=True, for_admins=True, takes=("vault",)),
        Action("secrets.list", secrets_list, for_admins=True, takes=("vault",)),
        Action("secrets.remove", secrets_remove, writes=True, for_admins=True, takes=("vault",)),
        Action("secrets.rotate", secrets_rotate, writes=True, for_admins=True, takes=("vault", "resealers")),
    ]
)
