"""Addresses of databases and storage, checked without ever repeating what stands in them."""

import re
from urllib.parse import SplitResult, urlsplit

_SQLITE = "sqlite:///"
_POSTGRESQL = re.compile(r"postgres(?:ql)?(?:\+psycopg)?://", re.IGNORECASE)
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
