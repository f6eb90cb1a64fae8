"""Requests and answers, whoever carries them."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlencode, urlsplit

from longtake.client.failures import LongtakeApiError, ServerUnreachable

if TYPE_CHECKING:
    import os
    from collections.abc import Mapping

LIMIT_SECONDS = 30.0
#: Whoever is there takes a connection soon, however long the answer takes.
CONNECT_SECONDS = 10.0
FIRST_REFUSAL = 300
NO_CONTENT = 204
#: What a proxy says whose server is away.
AWAY = {502, 503, 504}
_PICTURES = {"image/png": b"\x89PNG", "image/jpeg": b"\xff\xd8\xff"}


@dataclass(frozen=True, slots=True)
class Request:
    """One request. Whatever is `repeatable` has the same effect however often it arrives."""

    method: str
    url: str
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes | None = None
    repeatable: bool = True
    #: How long to wait for a part of the answer.
    seconds: float = LIMIT_SECONDS


@dataclass(frozen=True, slots=True)
class Reply:
    """A whole answer; names of headers are in small letters."""

    status: int
    headers: Mapping[str, str]
    body: bytes


def server_address(server: str) -> str:
    """Return the server's address without a slash at its end; raises ValueError for what is none."""
    parts = urlsplit(server.strip())
    if parts.scheme not in {"http", "https"} or not parts.hostname or parts.query or parts.fragment:
        raise ValueError(f"{server!r} is not the address of a server, such as https://media.example.com")
    if parts.username or parts.password:
        raise ValueError("an address of a server has no user name and no password in it")
    return server.strip().rstrip("/")


def checked_token(token: str) -> str:
    """Return the token; raises ValueError, without repeating it, for what no header can carry."""
    if not token.isascii() or not token.isprintable() or " " in token:
        raise ValueError("a token has only printable ASCII characters and no spaces")
    return token


def route(*parts: str) -> str:
    """Return the path to something of version 1; whatever stands in a part, it stays one part."""
    return "/v1/" + "/".join(quote(part, safe="") for part in parts)


def bytes_of(file: str | os.PathLike[str] | bytes) -> bytes:
    """Return what is to be uploaded: the bytes themselves, or those of a file."""
    return file if isinstance(file, bytes) else Path(file).read_bytes()


def picture_type(content: bytes) -> str:
    """Return the media type of a picture by how it begins; the server looks closer."""
    if content[8:12] == b"WEBP":
        return "image/webp"
    return next((kind for kind, begin in _PICTURES.items() if content.startswith(begin)), "application/octet-stream")


def query(**values: Any) -> str:
    """Return the part of an address after the path; what is None is left out, a list stands several times."""
    given = {name: value for name, value in values.items() if value is not None and value != []}
    return f"?{urlencode(given, doseq=True)}" if given else ""


def content_of(reply: Reply) -> Any:
    """Return what the answer holds; a refusal is raised."""
    if reply.status == NO_CONTENT:
        return None
    try:
        content = json.loads(reply.body)
    except ValueError:
        content = None
    if reply.status < FIRST_REFUSAL and content is not None:
        return content
    raise refusal(reply, content if isinstance(content, dict) else {})


def refusal(reply: Reply, problem: Mapping[str, Any]) -> LongtakeApiError:
    """Return the error that a problem (RFC 9457) tells."""
    if "code" not in problem and reply.status in AWAY:
        return ServerUnreachable(f"What stands before the server cannot reach it (status {reply.status}).", sent=True)
    if "code" not in problem:
        hint = "Check the address, and whatever stands between here and the server."
        return LongtakeApiError(f"What answers there (status {reply.status}) is not Longtake.", hint=hint)
    return LongtakeApiError(
        str(problem.get("detail", "The server refused.")),
        status=reply.status,
        code=str(problem["code"]),
        hint=str(problem.get("hint", "")),
        request_id=str(problem.get("request_id", "")),
        retry_after=_seconds(reply.headers.get("retry-after")),
        facts=problem,
    )


def _seconds(text: str | None) -> float | None:
    # Longtake sends seconds; the form with a date is left to whoever stands in between.
    return float(text) if text is not None and text.isdigit() else None
