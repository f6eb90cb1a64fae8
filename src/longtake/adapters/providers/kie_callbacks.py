"""KIE's callbacks: hints that a task has changed. Their signature does not cover the body, so it is not believed."""

from __future__ import annotations

import base64
import hashlib
import hmac
from typing import TYPE_CHECKING, Any

from longtake.adapters.providers.kie_envelope import task_id_of

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

TOLERANCE_SECONDS = 300
_MILLISECONDS_FROM = 10**11
_LONGEST_TIMESTAMP = 20


def callback_task_id(body: Any) -> str | None:
    """Return the task a callback speaks of, wherever in it the id stands."""
    return task_id_of(body.get("data")) or task_id_of(body) if isinstance(body, dict) else None


def is_signed(headers: Mapping[str, str], task_id: str, key: str, now: datetime) -> bool:
    """Say whether somebody who knows the key has signed this task's id within five minutes of now."""
    given = {name.lower(): value for name, value in headers.items()}
    timestamp, signature = given.get("x-webhook-timestamp", ""), given.get("x-webhook-signature", "")
    if not (timestamp.isascii() and timestamp.isdigit() and len(timestamp) <= _LONGEST_TIMESTAMP):
        return False
    digest = hmac.new(key.encode(), f"{task_id}.{timestamp}".encode(), hashlib.sha256).digest()
    genuine = hmac.compare_digest(base64.b64encode(digest), signature.encode())
    moment = int(timestamp) if int(timestamp) < _MILLISECONDS_FROM else int(timestamp) / 1000
    return genuine and abs(moment - now.timestamp()) <= TOLERANCE_SECONDS
