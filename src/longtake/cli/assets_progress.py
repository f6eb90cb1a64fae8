"""Waiting until the copy and the thumbnail of a file have been tried: each is there then, or says why it is not."""

import time
from collections.abc import Iterator, Mapping
from typing import Any

from longtake.client import Client

LOOK_SECONDS = 0.3
UNDER_WAY = {"pending", "processing"}


def tried(client: Client, asset: Mapping[str, Any]) -> dict[str, Any]:
    """Return the asset as it is after the first try of both; later tries take minutes, and nobody waits for them."""
    known = dict(asset)
    while _is_open(known, "save") or _is_open(known, "thumbnail"):
        time.sleep(LOOK_SECONDS)
        known = dict(client.assets.get(known["id"]))
    return known


def what_is_missing(asset: Mapping[str, Any]) -> Iterator[str]:
    """Say of copy and thumbnail which one was tried and has not come."""
    for name, word in (("save", "copy"), ("thumbnail", "thumbnail")):
        if code := asset[f"{name}_error"]:
            later = "It is tried again." if asset[f"{name}_state"] in UNDER_WAY else "It was given up."
            yield f"{asset['id']}: no {word} [{code}]. {later}"


def _is_open(asset: Mapping[str, Any], name: str) -> bool:
    return asset[f"{name}_state"] in UNDER_WAY and not asset[f"{name}_error"]
