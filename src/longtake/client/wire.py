"""Requests, replies and event streams as bytes, independent of the HTTP library that carries them."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlencode, urlsplit

from longtake.client.errors import LongtakeApiError, ServerUnreachable

if TYPE_CHECKING:
    import os
    from collections.abc import Mapping

LIMIT_SECONDS = 30.0
#: A reachable server accepts a connection quickly, however long its answer takes.
CONNECT_SECONDS = 10.0
FIRST_REFUSAL = 300
NO_CONTENT = 204
#: What a proxy answers while its server is down.
AWAY = {502, 503, 504}
_PICTURES = {"image/png": b"\x89PNG", "image/jpeg": b"\xff\xd8\xff"}


@dataclass(frozen=True, slots=True)
class Request:
    """One request. A `repeatable` request has the same effect however often it arrives."""

    method: str
    #: A path of the server until its address is put before it.
    url: str
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes | None = None
    repeatable: bool = True
    #: Longest silence while waiting for the next part of the answer.
    seconds: float = LIMIT_SECONDS


@dataclass(frozen=True, slots=True)
class Reply:
    """A complete answer; header names are in lower case."""

    status: int
    headers: Mapping[str, str]
    body: bytes


def server_address(server: str) -> str:
    """Return the server's address without a trailing slash; raise ValueError if it is not an address."""
    parts = urlsplit(server.strip())
    if parts.scheme not in {"http", "https"} or not parts.hostname or parts.query or parts.fragment:
        raise ValueError(f"{server!r} is not the address of a server, such as https://media.example.com")
    if parts.username or parts.password:
        raise ValueError("a server's address must not contain a user name or password")
    return server.strip().rstrip("/")


def checked_token(token: str) -> str:
    """Return the token; raise ValueError, without quoting it, if a header cannot carry it."""
    if not token.isascii() or not token.isprintable() or " " in token:
        raise ValueError("a token has only printable ASCII characters and no spaces")
    return token


def route(*parts: str) -> str:
    """Return a path of API version 1. Each part is escaped, so it stays one part."""
    return "/v1/" + "/".join(quote(part, safe="") for part in parts)


def bytes_of(file: str | os.PathLike[str] | bytes) -> bytes:
    """Return the bytes to upload: those given, or those of a file."""
    return file if isinstance(file, bytes) else Path(file).read_bytes()


def picture_type(content: bytes) -> str:
    """Return a picture's media type, judged by its first bytes; the server looks closer."""
    if content[8:12] == b"WEBP":
        return "image/webp"
    return next((kind for kind, begin in _PICTURES.items() if content.startswith(begin)), "application/octet-stream")


def query(**values: Any) -> str:
    """Return the query string. None and empty lists are left out; a list repeats its name."""
    given = {name: value for name, value in values.items() if value is not None and value != []}
    return f"?{urlencode(given, doseq=True)}" if given else ""


def content_of(reply: Reply) -> Any:
    """Return the answer's JSON; raise the error if the server refused."""
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
    """Return the error described by a problem document (RFC 9457)."""
    if "code" not in problem and reply.status in AWAY:
        return ServerUnreachable(f"A proxy cannot reach the server (status {reply.status}).", sent=True)
    if "code" not in problem:
        hint = "Check the address, and any proxy in between."
        return LongtakeApiError(f"The answer (status {reply.status}) is not from a Longtake server.", hint=hint)
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
    # Longtake sends seconds; only proxies use the form with a date.
    return float(text) if text is not None and text.isdigit() else None


#: A longer line is not from a Longtake server.
LONGEST_LINE = 1_000_000


@dataclass(frozen=True, slots=True)
class Event:
    """An event. `ready` begins every connection; `reset` means that events were missed, so read the state again."""

    type: str
    cursor: str | None = None
    at: str | None = None
    subject: str | None = None
    data: dict[str, Any] = field(default_factory=dict)


class EventStream:
    """Parses server-sent events from bytes that arrive in arbitrary pieces."""

    def __init__(self) -> None:
        self._rest = b""
        self._fields: dict[str, str] = {}

    def feed(self, chunk: bytes) -> list[Event]:
        """Return the events that this piece completes."""
        *lines, self._rest = (self._rest + chunk).split(b"\n")
        if len(self._rest) > LONGEST_LINE:
            raise ValueError("a line of the event stream is too long")
        return [event for line in lines if (event := self._take(line.rstrip(b"\r").decode(errors="replace")))]

    def _take(self, line: str) -> Event | None:
        if not line:
            fields, self._fields = self._fields, {}
            return _event(fields) if "data" in fields else None
        name, _colon, value = line.partition(":")
        value = value.removeprefix(" ")
        if name == "data" and "data" in self._fields:
            value = f"{self._fields['data']}\n{value}"
        if name:
            self._fields[name] = value
        return None


def _event(fields: dict[str, str]) -> Event:
    content: Any = json.loads(fields["data"])
    content = content if isinstance(content, dict) else {}
    kind = fields.get("event", "message")
    data = content.get("data")
    return Event(
        type=kind,
        cursor=content.get("cursor") or fields.get("id"),
        at=content.get("at"),
        subject=content.get("subject"),
        # Events about the stream itself have their members at the top level.
        data=data if isinstance(data, dict) else {key: value for key, value in content.items() if key != "cursor"},
    )
