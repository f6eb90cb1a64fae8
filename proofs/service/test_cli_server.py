"""Commands after the kill of a server on SQLite."""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.service.conftest import Commands
    from tests.service.processes import Place


def test_a_server_that_was_killed_leaves_a_file_that_is_not_believed(commands: Commands, place: Place) -> None:
    longtake = commands.at(place)
    with place.server() as server:
        job_id = longtake("schedules", "run", "engine.prune", "--json").json["job_id"]
        assert server.stop(signal.SIGKILL) == -signal.SIGKILL
    assert (place.data / "server.json").exists()
    listed = longtake("jobs", "list", "--json")
    assert [job["id"] for job in listed.json["jobs"]] == [job_id]
    assert "gone" in longtake("workers", "list").output
