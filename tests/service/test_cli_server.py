"""Commands beside a running server on SQLite: they ask it, and are told what it says."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING

from longtake.server.server_file import ServerFile, read_server_file, remove_server_file, write_server_file
from tests.service.processes import Place
from tests.wait import wait_for

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

    from tests.service.conftest import Commands
    from tests.service.processes import Server

UNKNOWN_ID = "0199c1f2-7a40-7cc3-98c4-dc0c0c07398f"


def test_a_job_is_run_listed_and_shown_through_the_server(
    commands: Commands, shared_place: Place, shared_server: Server
) -> None:
    longtake = commands.at(shared_place)
    job_id = longtake("schedules", "run", "engine.prune", "--json").json["job_id"]
    wait_for(lambda: longtake("jobs", "show", job_id, "--json").json["job"]["state"] == "done", "the job's end")
    listed = longtake("jobs", "list", "--kind", "engine.prune")
    assert (listed.code, job_id in listed.output, "done" in listed.output) == (0, True, True)
    shown = longtake("jobs", "show", job_id)
    assert "schedule:engine.prune" in shown.output
    assert "job.done" in shown.output
    refused = longtake("jobs", "retry", job_id, UNKNOWN_ID)
    assert refused.code == 1
    assert "is done" in refused.errors
    assert "There is no job" in refused.errors
    assert "[NOT_FOUND]" in refused.errors
    cancelled = longtake("jobs", "cancel", UNKNOWN_ID)
    assert (cancelled.code, "Traceback" in cancelled.errors) == (1, False)


def test_every_list_is_readable_and_json(commands: Commands, shared_place: Place, shared_server: Server) -> None:
    longtake = commands.at(shared_place)
    for what in ("jobs", "lanes", "kinds", "schedules", "workers", "alerts"):
        table = longtake(what, "list")
        assert table.code == 0, table.errors
        content = longtake(what, "list", "--json").json
        assert isinstance(content[what], list)
    assert longtake("workers", "list", "--json").json["workers"][0]["alive"] is True
    assert "every 1 h" in longtake("schedules", "list").output


def test_lanes_kinds_and_schedules_are_changed_through_the_server(
    commands: Commands, shared_place: Place, shared_server: Server
) -> None:
    longtake = commands.at(shared_place)
    assert longtake("lanes", "set", "posters", "--max-running", "3", "--rate", "10/60s", "--burst", "2").code == 0
    changed = longtake("lanes", "set", "posters", "--rate", "none", "--spacing", "0.5", "--json").json
    assert (changed["max_running"], changed["rate_count"], changed["spacing_seconds"]) == (3, None, 0.5)
    assert longtake("lanes", "pause", "posters", "--reason", "too fast").code == 0
    assert "paused: too fast" in longtake("lanes", "list").output
    assert longtake("lanes", "resume", "posters").output == "Resumed: posters.\n"
    for what, name in (("kinds", "engine.prune"), ("schedules", "engine.prune")):
        assert longtake(what, "pause", name).code == 0
        [found] = [one for one in longtake(what, "list", "--json").json[what] if one["name"] == name]
        assert found["paused"] is True
        assert longtake(what, "resume", name).code == 0
    assert longtake("lanes", "pause", "nowhere").code == 1


def test_wrong_arguments_are_the_users_to_mend(commands: Commands, shared_place: Place, shared_server: Server) -> None:
    longtake = commands.at(shared_place)
    for arguments in (
        ("jobs", "list", "--state", "waiting"),
        ("jobs", "show", "not-an-id"),
        ("jobs", "retry"),
        ("jobs", "retry", UNKNOWN_ID, "--failed"),
        ("jobs", "retry", UNKNOWN_ID, "--kind", "x"),
        ("lanes", "set", "posters", "--rate", "10"),
        ("lanes", "set", "posters", "--max-running", "many"),
        ("lanes", "set", "posters", "--max-running", "0"),
        ("lanes", "set", "posters", "--rate", "1/1", "--burst", "5"),
        ("jobs", "list", "--limit", "0"),
        ("jbos",),
    ):
        result = longtake(*arguments)
        assert result.code == 2, (arguments, result)
        assert result.errors
        assert "Traceback" not in result.errors


def test_a_worker_beside_the_server_is_refused_with_the_reason(shared_place: Place, shared_server: Server) -> None:
    refused = shared_place.run("worker")
    assert refused.returncode == 3
    assert f"longtake serve (process {os.getpid()})" in refused.stderr
    assert "[DATABASE_OWNED]" in refused.stderr
    assert "has a worker inside" in refused.stderr
    assert refused.stdout == ""


def test_a_second_server_and_a_migration_beside_the_server_are_refused(
    commands: Commands, shared_place: Place, shared_server: Server
) -> None:
    longtake = commands.at(shared_place)
    for arguments in (("serve",), ("migrate", "up"), ("migrate", "down", "base", "--yes")):
        refused = longtake(*arguments)
        assert (refused.code, "[DATABASE_OWNED]" in refused.errors) == (3, True), (arguments, refused)
    assert longtake("migrate", "status", "--json").json["up_to_date"] is True


def test_a_taken_port_is_named(commands: Commands, tmp_path: Path, shared_server: Server) -> None:
    port = shared_server.url.rsplit(":", 1)[1]
    refused = commands.at(Place(tmp_path))("serve", "--port", port)
    assert (refused.code, "[LISTEN_FAILED]" in refused.errors, port in refused.errors) == (2, True, True)
    assert not (tmp_path / "data").exists(), "nothing is begun without the port"


def test_a_server_that_answers_nonsense_is_not_believed(
    commands: Commands, shared_place: Place, shared_server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    pretended = ServerFile("http://127.0.0.1:1", "token", os.getpid())
    monkeypatch.setattr("longtake.cli.operator_access.server_of_database", lambda _settings: pretended)
    refused = commands.at(shared_place)("jobs", "list")
    assert (refused.code, "[SERVER_UNREACHABLE]" in refused.errors) == (3, True)
    assert "http://127.0.0.1:1 cannot be reached: " in refused.errors


def test_only_ones_own_server_file_is_removed(tmp_path: Path) -> None:
    first = ServerFile("http://127.0.0.1:1", "one", os.getpid())
    second = ServerFile("http://127.0.0.1:2", "two", os.getpid())
    write_server_file(tmp_path, first)
    write_server_file(tmp_path, second)
    remove_server_file(tmp_path, first)
    assert read_server_file(tmp_path) == second
    remove_server_file(tmp_path, second)
    assert list(tmp_path.iterdir()) == []
    remove_server_file(tmp_path, second)
    (tmp_path / "server.json").write_text(json.dumps({"url": "x"}))
    assert read_server_file(tmp_path) is None
