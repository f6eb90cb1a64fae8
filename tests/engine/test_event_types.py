"""The types that capabilities register name every event that is written for users."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import longtake
from longtake import open_database
from longtake.engine.events import check_pattern, patterns_of
from longtake.server.application import Application
from longtake.settings import Settings

#: Families whose events nobody but operators sees.
INTERNAL = {"job", "alert", "operator", "assets", "catalogue"}
WRITTEN = re.compile(r'append_events?\(.*?"([a-z_]+\.[a-z_]+)"', re.DOTALL)


def test_every_event_that_is_written_is_registered(sqlite_url: str) -> None:
    found = set()
    for file in Path(longtake.__file__).parent.rglob("*.py"):
        found |= {match[1] for match in WRITTEN.finditer(file.read_text(encoding="utf-8"))}
    written = {one for one in found if one.partition(".")[0] not in INTERNAL}
    assert written >= {"task.created", "asset.stored", "message.changed", "key.created", "webhook.disabled"}
    database = open_database(sqlite_url)
    types = Application(Settings(), database).context.event_types
    database.close()
    assert written <= set(types)


def test_types_and_families_can_be_asked_for_and_nothing_else() -> None:
    known = patterns_of(("task.created", "task.completed", "webhook.disabled"))
    assert known == ("task.created", "task.completed", "webhook.disabled", "task.*", "webhook.*")
    for wrong in ("task.compleated", "tusk.*", "task", "", "task.*\n"):
        with pytest.raises(ValueError, match=r"the types are task\.created, .*webhook\.\*"):
            check_pattern(wrong, known)
