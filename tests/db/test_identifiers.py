"""Ids are UUIDv7: what was made later sorts later."""

from __future__ import annotations

import time
import uuid

from longtake.clock import new_id


def test_ids_are_version_7_uuids() -> None:
    one = uuid.UUID(new_id())
    assert one.version == 7
    assert one.variant == uuid.RFC_4122


def test_ids_made_one_after_another_keep_their_order() -> None:
    ids = [new_id() for _ in range(20_000)]
    assert ids == sorted(ids)
    assert len(set(ids)) == len(ids)


def test_the_time_is_inside() -> None:
    before = time.time_ns() // 1_000_000
    milliseconds = uuid.UUID(new_id()).int >> 80
    assert before <= milliseconds <= time.time_ns() // 1_000_000
