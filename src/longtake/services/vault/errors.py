"""Errors of secrets."""

from longtake.errors import LongtakeError


class VaultError(LongtakeError):
    """A secret cannot be stored or read."""

    code = "VAULT_ERROR"
    exit_code = 2


class SecretFileUnusable(VaultError):
    """The file with this machine's secret is damaged, cannot be read, or others can read it."""

    code = "SECRET_FILE_UNUSABLE"


class VaultKeyWrong(VaultError):
    """This process does not have the key for a stored secret. Nothing was changed."""

    code = "VAULT_KEY_WRONG"
    default_hint = (
        "Restore the LONGTAKE_MASTER_KEY, LONGTAKE_SECRET_KEY or secret.key with which the secret was stored."
        " If that is lost, run `longtake secrets remove NAME` and set the secret again."
    )
