"""Actions on stored secrets. None of them ever shows one."""

from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field, SecretStr

from longtake.db import Transaction
from longtake.engine.engine import Engine
from longtake.server.operator.arguments import Name
from longtake.services.vault.vault import Vault
from longtake.services.webhooks.signatures import reseal_secrets

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
    """Keep a secret, encrypted, instead of what was there; processes know it within 5 seconds."""
    vault.put(tx, name, value.get_secret_value())
    return {"set": name}


def secrets_list(tx: Transaction, _engine: Engine, vault: Vault) -> dict[str, Any]:
    """List which secrets are stored, and when each was changed; never what they are."""
    return {"secrets": vault.names(tx)}


def secrets_remove(tx: Transaction, _engine: Engine, vault: Vault, *, name: Name) -> dict[str, Any]:
    """Forget a stored secret, also one that cannot be opened any more."""
    vault.remove(tx, name)
    return {"removed": name}


def secrets_rotate(tx: Transaction, _engine: Engine, vault: Vault) -> dict[str, Any]:
    """Encrypt all stored secrets with the first key of LONGTAKE_MASTER_KEY; those of other keys are named."""
    return {"rotated": vault.rotate(tx) + reseal_secrets(tx, vault)}
