"""Checks of addresses and secrets, and the types of settings that have them. Messages never repeat a secret."""

import ipaddress
import re
from functools import partial
from typing import Annotated, Any
from urllib.parse import SplitResult, urlsplit

from pydantic import AfterValidator, Field, SecretStr

#: Stands for 127.0.0.0/8 and ::1 in a list of address ranges.
LOOPBACK = "loopback"
_SQLITE = "sqlite:///"
_POSTGRESQL = re.compile(r"postgres(?:ql)?(?:\+psycopg)?://", re.IGNORECASE)
_ORIGIN = re.compile(
    r"(?P<scheme>https?)://(?P<host>[a-z0-9_-]+(?:\.[a-z0-9_-]+)*|\[[0-9a-f:.]+\])(?::(?P<port>[1-9]\d{0,4}))?/?"
)
_BUCKET = re.compile(r"[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]")

#: Enough for HS256 and AES-256, if each character is random.
LEAST_CHARACTERS = 32
#: Enough for a shared secret that attackers can only try over the network.
INTERNAL_SECRET_CHARACTERS = 16


def check_database_url(url: str) -> str:
    """Return the address in its normal form, or raise ValueError with the reason."""
    if url.lower().startswith("sqlite:"):
        return _check_sqlite(url)
    if match := _POSTGRESQL.match(url):
        url = "postgresql://" + url[match.end() :]
        if not _has_valid_authority(_split(url)):
            raise ValueError(
                "has no valid host and port; in a password, write @ as %40, / as %2F, : as %3A and # as %23"
            )
        return url
    raise ValueError("must start with sqlite:/// (a file) or postgresql:// (a server)")


def check_admin_url(url: SecretStr) -> SecretStr:
    """Return the address in its normal form, or raise ValueError with the reason."""
    plain = url.get_secret_value().strip()
    if plain and not _POSTGRESQL.match(plain):
        raise ValueError("must start with postgresql://")
    return SecretStr(check_database_url(plain) if plain else "")


def _check_sqlite(url: str) -> str:
    path = url[len(_SQLITE) :]
    if not url.lower().startswith(_SQLITE) or not path:
        raise ValueError(
            "needs three slashes and a path (sqlite:///folder/file.db), or four slashes for an absolute path"
        )
    if ":memory:" in path:
        raise ValueError("must be a file, because jobs in memory do not survive a restart")
    if "?" in path:
        raise ValueError("must be a path without options; options after ? are not supported")
    if path.endswith("/"):
        raise ValueError("must be a file, not a folder")
    return _SQLITE + path


def check_storage_url(url: str) -> str:
    """Return the address unchanged, or raise ValueError with the reason."""
    scheme = url.partition(":")[0].lower()
    if scheme == "file":
        rest = url[len("file:") :]
        if not rest.strip("/") or (rest.startswith("//") and not rest.startswith("///")):
            raise ValueError("needs a folder, such as file:folder, file:/absolute/folder or file:///absolute/folder")
        return url
    if scheme == "s3":
        parts = _split(url)
        if not url.lower().startswith("s3://") or not _BUCKET.fullmatch(parts.netloc):
            raise ValueError("needs a bucket name after s3:// (3 to 63 characters: a–z, 0–9, dot and hyphen)")
        return url
    raise ValueError("must start with file: (a folder) or s3:// (a bucket)")


def check_public_url(url: str) -> str:
    """Return the address without a trailing slash, or raise ValueError with the reason."""
    if not url:
        return url
    parts = _split(url)
    try:
        host, _port = parts.hostname or "", parts.port
    except ValueError:
        raise ValueError("has no valid host and port") from None
    if parts.scheme not in {"http", "https"} or not host:
        raise ValueError("must start with https:// (or http:// for a loopback host) and include a host")
    if "@" in parts.netloc:
        raise ValueError("must not contain a user name or password")
    if parts.query or parts.fragment or "?" in url or "#" in url:
        raise ValueError("must not contain ? or #; a path is allowed and becomes the prefix of all routes")
    if not re.fullmatch(r"(?:/[A-Za-z0-9._~-]+)*/?", parts.path) or {".", ".."} & set(parts.path.split("/")):
        raise ValueError("has a path that cannot be the prefix of all routes; a valid path is /media")
    if parts.scheme == "http" and not is_loopback_name(host):
        raise ValueError("must use https, because http exposes tokens and links on the network")
    return url.rstrip("/")


def listed(text: str) -> list[str]:
    """Split a comma-separated setting into its items, without empty ones."""
    return [word for word in (piece.strip() for piece in text.split(",")) if word]


def check_origins(text: str) -> str:
    """Return the origins as browsers spell them, or raise ValueError with the reason."""
    return ",".join(_origin(word) for word in listed(text))


def _origin(word: str) -> str:
    if word == "*":
        raise ValueError("must name each origin, because * would let any web page use this server")
    match = _ORIGIN.fullmatch(word.lower())
    if match is None:
        raise ValueError(f"{word[:50]!r} is not an origin; write https://name or https://name:port, without a path")
    usual = "443" if match["scheme"] == "https" else "80"
    port = match["port"]
    return f"{match['scheme']}://{match['host']}" + ("" if port in {None, usual} else f":{port}")


def check_address_ranges(text: str) -> str:
    """Return the ranges unchanged, or raise ValueError with the reason."""
    for word in listed(text):
        try:
            if word != LOOPBACK:
                ipaddress.ip_network(word)
        except ValueError:
            raise ValueError(f"{word[:50]!r} is neither `{LOOPBACK}` nor an address range") from None
    return text


def address_ranges(text: str) -> list[str]:
    """Split a checked list into ranges, and replace `loopback` with its ranges."""
    words = listed(text)
    return [word for word in words if word != LOOPBACK] + (["127.0.0.0/8", "::1"] if LOOPBACK in words else [])


def is_loopback_name(host: str) -> bool:
    """Return whether the name or address always means this machine."""
    if host.lower() == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def _split(url: str) -> SplitResult:
    try:
        return urlsplit(url)
    except ValueError:
        # urlsplit's message may quote part of a password.
        raise ValueError("is not a valid URL") from None


def _has_valid_authority(parts: SplitResult) -> bool:
    # libpq accepts several hosts (`one:5432,two:5432`); an empty host is the local socket.
    hosts = parts.netloc.rpartition("@")[2]
    return all(re.fullmatch(r"(?:\[[0-9A-Fa-f:.%]+\]|[^:@\[\]]*)(?::\d{0,5})?", host) for host in hosts.split(","))


def check_secret(value: SecretStr, least: int) -> SecretStr:
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


def between(least: float, most: float, description: str, *, default: float, example: Any = None) -> Any:
    """Return the field of a number with its limits."""
    return Field(default=default, ge=least, le=most, description=description, examples=example and [example])


def optional(description: str, example: str) -> Any:
    """Return the field of a setting that is empty unless it is set."""
    return Field(default="", description=description, examples=[example])


def optional_secret(description: str, example: str) -> Any:
    """Return the field of a secret that is empty unless it is set."""
    return Field(default=SecretStr(""), description=description, examples=[example])


DatabaseUrl = Annotated[str, AfterValidator(check_database_url)]
AdminUrl = Annotated[SecretStr, AfterValidator(check_admin_url)]
StorageUrl = Annotated[str, AfterValidator(check_storage_url)]
PublicUrl = Annotated[str, AfterValidator(check_public_url)]
ProviderUrl = Annotated[str, Field(min_length=1), AfterValidator(check_public_url)]
Origins = Annotated[str, AfterValidator(check_origins)]
AddressRanges = Annotated[str, AfterValidator(check_address_ranges)]
KeySet = Annotated[str, AfterValidator(check_key_set)]
Secret = Annotated[SecretStr, AfterValidator(partial(check_secret, least=LEAST_CHARACTERS))]
InternalSecret = Annotated[SecretStr, AfterValidator(partial(check_secret, least=INTERNAL_SECRET_CHARACTERS))]
MasterKeys = Annotated[SecretStr, AfterValidator(check_master_keys)]
