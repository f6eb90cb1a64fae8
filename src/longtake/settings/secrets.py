"""Checks of secrets and keys. Messages never repeat the value."""

from urllib.parse import urlsplit

from pydantic import SecretStr

from longtake.settings.addresses import is_loopback_name

#: Enough for HS256 and AES-256, if each character is random.
LEAST_CHARACTERS = 32


def check_secret(value: SecretStr, least: int = LEAST_CHARACTERS) -> SecretStr:
    """Return the secret without surrounding space, or raise ValueError if it is too short."""
    secret = value.get_secret_value().strip()
    if secret and len(secret) < least:
        raise ValueError(f"must have at least {least} characters")
    return SecretStr(secret)


def check_master_keys(value: SecretStr) -> SecretStr:
    """Return the keys, comma-separated, or raise ValueError if one is too short or given twice."""
    keys = master_keys(value)
    if any(len(key) < LEAST_CHARACTERS for key in keys):
        raise ValueError(f"must contain keys of at least {LEAST_CHARACTERS} characters each, separated by commas")
    if len(set(keys)) != len(keys):
        raise ValueError("contains the same key twice")
    return SecretStr(",".join(keys))


def master_keys(value: SecretStr) -> list[str]:
    """Split the comma-separated setting into its keys."""
    return [key.strip() for key in value.get_secret_value().split(",") if key.strip()]


def check_key_set(value: str) -> str:
    """Return the address or path of a key set, or raise ValueError with the reason."""
    if "://" not in value:
        return value
    try:
        parts = urlsplit(value)
        host = parts.hostname or ""
        _port = parts.port
    except ValueError:
        raise ValueError("is not a valid URL") from None
    if parts.scheme not in {"https", "http"} or not host:
        raise ValueError("must be an https:// address or a file path")
    if parts.scheme == "http" and not is_loopback_name(host):
        raise ValueError("must use https, because anyone who changes the keys on the network can log in as any user")
    if "@" in parts.netloc:
        raise ValueError("must not contain a user name or password")
    return value
