"""How parent and decoder talk: a header of JSON and a body of bytes, each with its length in front."""

from __future__ import annotations

import struct
from typing import Any, BinaryIO

import orjson

LENGTHS = struct.Struct(">II")
#: A header is a few words; a body at most a block, a picture, or an animation.
MOST_HEADER = 65_536
MOST_BODY = 64 * 1024 * 1024


def pack(header: dict[str, Any], body: bytes = b"") -> bytes:
    """Return the message as it goes through the pipe."""
    head = orjson.dumps(header)
    return LENGTHS.pack(len(head), len(body)) + head + body


def unpack_lengths(prefix: bytes) -> tuple[int, int]:
    """Return the lengths of header and body; a decoder that was taken over cannot make its parent swallow more."""
    head, body = LENGTHS.unpack(prefix)
    if head > MOST_HEADER or body > MOST_BODY:
        raise ValueError(f"A message of {head} and {body} bytes is longer than any of ours.")
    return head, body


def receive(pipe: BinaryIO) -> tuple[dict[str, Any], bytes] | None:
    """Read one message in the child; None when the parent is gone."""
    prefix = pipe.read(LENGTHS.size)
    if len(prefix) < LENGTHS.size:
        return None
    head, body = unpack_lengths(prefix)
    return orjson.loads(pipe.read(head)), pipe.read(body)
