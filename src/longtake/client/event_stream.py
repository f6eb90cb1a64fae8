"""From the bytes of a stream to events."""

from __future__ import annotations

import json
from typing import Any

from longtake.client.shapes import Event

#: A stream without an end of line is not one of ours.
LONGEST_LINE = 1_000_000


class EventStream:
    """Takes bytes as they arrive, cut anywhere, and gives the events that are complete."""

    def __init__(self) -> None:
        self._rest = b""
        self._fields: dict[str, str] = {}

    def feed(self, chunk: bytes) -> list[Event]:
        """Return the events that end in this piece."""
        *lines, self._rest = (self._rest + chunk).split(b"\n")
        if len(self._rest) > LONGEST_LINE:
            raise ValueError("the stream has a line without an end")
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
        # What belongs to the stream itself has its few words at the top.
        data=data if isinstance(data, dict) else {key: value for key, value in content.items() if key != "cursor"},
    )
