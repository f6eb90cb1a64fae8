"""What a program says of its lanes arrives with its next start, unless an operator has set them since."""

from __future__ import annotations

from typing import TYPE_CHECKING

from longtake import Engine, Lane
from longtake.engine.lane_store import lane_view, set_lane

if TYPE_CHECKING:
    from longtake import Database


def limits(database: Database, name: str) -> Lane:
    return database.run_blocking(lane_view, name).lane


def test_a_changed_declaration_arrives_with_the_next_start(database: Database) -> None:
    database.run_blocking(Engine(database, lanes=[Lane("kie", max_running=2)]).declare)
    database.run_blocking(Engine(database, lanes=[Lane("kie", rate=(20, 10.0))]).declare)
    assert limits(database, "kie") == Lane("kie", rate=(20, 10.0))


def test_what_an_operator_set_stays(database: Database) -> None:
    database.run_blocking(Engine(database, lanes=[Lane("kie", max_running=2)]).declare)
    database.run_blocking(set_lane, Lane("kie", max_running=50))
    database.run_blocking(Engine(database, lanes=[Lane("kie", max_running=3)]).declare)
    assert limits(database, "kie") == Lane("kie", max_running=50)
