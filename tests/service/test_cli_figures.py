"""`longtake figures`, on the file itself and through the server that owns it."""

from __future__ import annotations

import sqlite3
from typing import TYPE_CHECKING

import pytest

from longtake.server.open_database import migrate_service

if TYPE_CHECKING:
    from pathlib import Path

    from tests.service.conftest import Commands
    from tests.service.processes import Place

FILL = """
INSERT INTO tasks (user_id, type, model, provider, prompt, parameters, price, credits_held, reference, created_at,
                   status, deadline_at, ended_at)
SELECT 'ada', 'image', 'nano-banana', 'kie', 'a fox', '{}', 4, 4, value,
       strftime('%Y-%m-%d %H:%M:%f000', 'now', '-90 seconds'),
       CASE WHEN value > 5 THEN 'completed' ELSE 'failed' END, '2026-01-01 12:00:00.000000',
       strftime('%Y-%m-%d %H:%M:%f000', 'now', '-10 seconds')
FROM json_each('[1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15]')
"""


@pytest.fixture
def path(place: Place) -> Path:
    """A database in which a third of the tasks failed, and the others took 80 seconds."""
    place.data.mkdir()
    file = place.data / "longtake.db"
    migrate_service(f"sqlite:///{file}")
    connection = sqlite3.connect(file)
    connection.execute(FILL)
    connection.commit()
    connection.close()
    return file


def test_figures_are_shown_with_their_targets_and_what_is_missed(commands: Commands, place: Place, path: Path) -> None:
    longtake = commands.at(place)
    shown = longtake("figures")
    assert shown.code == 0, shown.errors
    [image] = [line for line in shown.output.splitlines() if line.startswith("image")]
    assert " ".join(image.split()) == "image 10 5 0 66.7 % (missed) > 95.0 % 80.0 s (missed) < 60.0 s 80.0 s"
    [video] = [line for line in shown.output.splitlines() if line.startswith("video")]
    assert " ".join(video.split()) == "video 0 0 0 – > 95.0 % – < 300.0 s –"
    assert "Under way: 0 pending, 0 running." in shown.output
    with place.server_here(with_worker=False):
        found = longtake("figures", "--json").json
    assert [(one["type"], one["success_met"], one["mean_met"]) for one in found["types"]] == [
        ("image", False, False),
        ("video", None, None),
    ]
    assert longtake("figures", "--hours", "0.001", "--json").json["counted"] == 0


@pytest.mark.parametrize("hours", ["0", "-1", "nan", "1e9", "many"])
def test_hours_that_are_none_are_bad_usage(commands: Commands, place: Place, path: Path, hours: str) -> None:
    assert commands.at(place)("figures", "--hours", hours).code == 2
