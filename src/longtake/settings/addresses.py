"""Addresses of databases and storage, checked without ever repeating what stands in them."""

import ipaddress
import re
from urllib.parse import SplitResult, urlsplit

from pydantic import SecretStr

#: Stands for 127.0.0.0/8 and ::1 in a list of address ranges.
LOOPBACK = "loopback"
_SQLITE = "sqlite:///"
_POSTGRESQL = re.compile(r"postgres(?:ql)?(?:\+psycopg)?://", re.IGNORECASE)
_ORIGIN = re.compile(
    r"(?P<scheme>https?)://(?P<host>[a-z0-9_-]+(?:\.[a-z0-9_-]+)*|\[[0-9a-f:.]+\])(?::(?P<port>[1-9]\d{0,4}))?/?"
)
_BUCKET = re.compile(r"[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]")


def check_database_url(url: str) -> str:
    """The address in its one spelling, or ValueError with what is wrong."""
    if url.lower().startswith("sqlite:"):
        return _check_sqlite(url)
    if match := _POSTGRESQL.match(url):
        url = "postgresql://" + url[match.end() :]
        if not _has_valid_authority(_split(url)):
            raise ValueError("has no valid host and port; in a password write @ as %40, / as %2F, : as %3A, # as %23")
        return url
    raise ValueError("must begin with sqlite:/// (a file) or postgresql:// (a server)")


def check_admin_url(url: SecretStr) -> SecretStr:
    """The address in its one spelling, or ValueError with what is wrong."""
    plain = url.get_secret_value().strip()
    if plain and not _POSTGRESQL.match(plain):
        raise ValueError("must begin with postgresql://")
    return SecretStr(check_database_url(plain) if plain else "")


def _check_sqlite(url: str) -> str:
    path = url[len(_SQLITE) :]
    if not url.lower().startswith(_SQLITE) or not path:
        raise ValueError("needs three slashes and a path (sqlite:///folder/file.db), four for an absolute path")
    if ":memory:" in path:
        raise ValueError("must be a file: jobs kept in memory do not survive a restart")
    if "?" in path:
        raise ValueError("must be a plain path; options after ? are not supported")
    if path.endswith("/"):
        raise ValueError("must be a file, not a folder")
    return _SQLITE + path


def check_storage_url(url: str) -> str:
    """The address unchanged, or ValueError with what is wrong."""
    scheme = url.partition(":")[0].lower()
    if scheme == "file":
        rest = url[len("file:") :]
        if not rest.strip("/") or (rest.startswith("//") and not rest.startswith("///")):
            raise ValueError("needs a folder: file:folder, file:/absolute/folder or file:///absolute/folder")
        return url
    if scheme == "s3":
        parts = _split(url)
        if not url.lower().startswith("s3://") or not _BUCKET.fullmatch(parts.netloc):
            raise ValueError("needs the name of a bucket after s3:// (3 to 63 of a–z, 0–9, dot and hyphen)")
        return url
    raise ValueError("must begin with file: (a folder) or s3:// (a bucket)")


def check_public_url(url: str) -> str:
    """Return the address without a slash at its end, or raise ValueError with what is wrong."""
    if not url:
        return url
    parts = _split(url)
    try:
        host, _port = parts.hostname or "", parts.port
    except ValueError:
        raise ValueError("has no valid host and port") from None
    if parts.scheme not in {"http", "https"} or not host:
        raise ValueError("must begin with https:// (or http:// for a loopback name) and name a host")
    if "@" in parts.netloc:
        raise ValueError("must not have a user name or password in it")
    if parts.query or parts.fragment or "?" in url or "#" in url:
        raise ValueError("must have nothing after ? or #; a path in front of all routes is allowed")
    if not re.fullmatch(r"(?:/[A-Za-z0-9._~-]+)*/?", parts.path) or {".", ".."} & set(parts.path.split("/")):
        raise ValueError("has a path that cannot stand in front of all routes; example of one: /media")
    if parts.scheme == "http" and not is_loopback_name(host):
        raise ValueError("must use https: tokens and links would be readable on the way")
    return url.rstrip("/")


def listed(text: str) -> list[str]:
    """Return what stands between the commas of a setting."""
    return [word for word in (piece.strip() for piece in text.split(",")) if word]


def check_origins(text: str) -> str:
    """Return the origins as browsers spell them, or raise ValueError with what is wrong."""
    return ",".join(_origin(word) for word in listed(text))


def _origin(word: str) -> str:
    if word == "*":
        raise ValueError("must name each origin: * would let every page in the world use this server")
    match = _ORIGIN.fullmatch(word.lower())
    if match is None:
        raise ValueError(
            f"{word[:50]!r} is not an origin: write https://name or https://name:port, and nothing after it"
        )
    usual = "443" if match["scheme"] == "https" else "80"
    port = match["port"]
    return f"{match['scheme']}://{match['host']}" + ("" if port in {None, usual} else f":{port}")


def check_address_ranges(text: str) -> str:
    """Return the ranges as they were given, or raise ValueError with what is wrong."""
    for word in listed(text):
        try:
            if word != LOOPBACK:
                ipaddress.ip_network(word)
        except ValueError:
            raise ValueError(f"{word[:50]!r} is neither `{LOOPBACK}` nor a range of addresses") from None
    return text


def address_ranges(text: str) -> list[str]:
    """Return the ranges of a checked list, with `loopback` replaced by its ranges."""
    words = listed(text)
    return [word for word in words if word != LOOPBACK] + (["127.0.0.0/8", "::1"] if LOOPBACK in words else [])


def is_loopback_name(host: str) -> bool:
    """Say whether the name or address can only mean this machine itself."""
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
        # Its message may quote a piece of a password.
        raise ValueError("is not a valid URL") from None


def _has_valid_authority(parts: SplitResult) -> bool:
    # Several hosts (`one:5432,two:5432`) are for libpq to judge; an empty one is the local socket.
    hosts = parts.netloc.rpartition("@")[2]
    return all(re.fullmatch(r"(?:\[[0-9A-Fa-f:.%]+\]|[^:@\[\]]*)(?::\d{0,5})?", host) for host in hosts.split(","))
