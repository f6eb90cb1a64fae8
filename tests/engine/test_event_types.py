"""The one list of types that users can ask for names every event that is written for users."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import longtake
from longtake.engine.event_types import TYPES, check_pattern, patterns_of

#: Families whose events nobody but operators sees.
INTERNAL = {"job", "alert", "operator", "assets", "catalogue"}
WRITTEN = re.compile(r'append_events?\(.*?"([a-z_]+\.[a-z_]+)"', re.DOTALL)


def test_every_event_that_is_written_has_its_place_in_the_list() -> None:
    found = set()
    for file in Path(longtake.__file__).parent.rglob("*.py"):
        found |= {match[1] for match in WRITTEN.finditer(file.read_text(encoding="utf-8"))}
    written = {one for one in found if one.partition(".")[0] not in INTERNAL}
    assert written >= {"task.created", "asset.stored", "message.changed", "key.created", "webhook.disabled"}
    assert written <= set(TYPES)


def test_types_and_families_can_be_asked_for_and_nothing_else() -> None:
    known = patterns_of(TYPES)
    assert {"task.completed", "task.*", "webhook.*"} <= set(known)
    for wrong in ("task.compleated", "tusk.*", "task", "", "task.*\n"):
        with pytest.raises(ValueError, match=r"there are task\.created, .*webhook\.\*"):
            check_pattern(wrong, known)
