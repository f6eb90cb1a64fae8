"""`longtake assets`: what users do with media files, and how operators see all of them fare."""

from __future__ import annotations

import http.server
import io
import os
import pty
import sqlite3
import subprocess
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from PIL import Image

from longtake.server.open_database import migrate_service
from tests.sandbox_process import SandboxProcess
from tests.service.cli_users import User, place_with
from tests.service.processes import Place, Server
from tests.wait import wait_for

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.sandbox_process import SandboxProcess
    from tests.service.conftest import Commands

UNKNOWN_ID = "0199c1f2-7a40-7cc3-98c4-dc0c0c07398f"


def picture() -> bytes:
    body = io.BytesIO()
    Image.effect_noise((320, 180), 50).save(body, "PNG")
    return body.getvalue()


PICTURE = picture()


class Files(http.server.BaseHTTPRequestHandler):
    """Serves one picture under every name that ends in .png, and nothing else."""

    def do_GET(self) -> None:
        found = self.path.partition("?")[0].endswith(".png")
        self.send_response(200 if found else 404)
        self.send_header("Content-Length", str(len(PICTURE) if found else 0))
        self.end_headers()
        if found:
            self.wfile.write(PICTURE)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the name is http.server's
        pass


@pytest.fixture(scope="module")
def source() -> Iterator[str]:
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Files)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_address[1]}"
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture(scope="module")
def home(sandbox: SandboxProcess, tmp_path_factory: pytest.TempPathFactory) -> Place:
    return place_with(sandbox, tmp_path_factory.mktemp("home"), LONGTAKE_UNFINISHED_IMPORTS="5")


@pytest.fixture(scope="module")
def server(home: Place) -> Iterator[Server]:
    with home.server_here() as running:
        yield running


@pytest.fixture
def longtake(home: Place, server: Server, tmp_path: Path, commands: Commands, monkeypatch: pytest.MonkeyPatch) -> User:
    return User(Place(tmp_path, {**home.settings, "LONGTAKE_DATA_DIR": str(home.data)}), commands, monkeypatch)


def test_a_file_is_added_and_soon_here_with_its_thumbnail(longtake: User, source: str) -> None:
    added = longtake("assets", "add", f"{source}/fox.png", "--title", "A fox")
    assert added.code == 0, added.errors
    asset_id, told = added.output.splitlines()
    assert told == "1 added, 0 there already, 0 refused."

    def finished() -> bool:
        asset = longtake("assets", "show", asset_id, "--json").json
        return (asset["save_state"], asset["thumbnail_state"]) == ("success", "completed")

    wait_for(finished, "copy and thumbnail")
    asset = longtake("assets", "show", asset_id, "--json").json
    assert (asset["size"], asset["width"], asset["height"], asset["title"]) == (len(PICTURE), 320, 180, "A fox")
    assert asset_id in longtake("assets", "show", asset_id[-8:]).output
    again = longtake("assets", "add", f"{source}/fox.png")
    assert again.output.splitlines() == [asset_id, "0 added, 1 there already, 0 refused."]
    assert longtake("assets", "retry", asset_id[-8:], "--json").json["save_state"] == "success"
    assert longtake("assets", "retry", asset_id, "--force", "--json").json["save_state"] == "pending"
    wait_for(finished, "another copy")
    listed = longtake("assets", "list", "--role", "import", "--state", "success")
    assert asset_id in listed.output
    assert "A fox" in listed.output


def test_what_is_refused_is_told_and_the_rest_goes_in(longtake: User, source: str) -> None:
    mixed = longtake("assets", "add", "http://10.0.0.8/a.png", f"{source}/owl.png", "ftp://example.com/a.png")
    assert mixed.code == 1
    assert "1 added, 0 there already, 2 refused." in mixed.output
    assert "Address 1: " in mixed.errors
    assert "Address 3: " in mixed.errors
    assert mixed.errors.count("[ADDRESS_REFUSED]") == 2
    assert longtake("assets", "add", f"{source}/a.png", "--kind", "song").code == 2


def test_a_list_is_imported_with_its_bad_lines_told_and_again_adds_nothing(longtake: User, source: str) -> None:
    """Twelve, where five may be under way: it waits for room, and all go in."""
    lines = [f"{source}/list-{number}.png,Picture {number}" for number in range(12)]
    file = longtake.folder / "files.csv"
    rows = ["url,title", *lines[:3], "no address,x", *lines[3:], "http://169.254.169.254/a.png,Metadata"]
    file.write_text("\ufeff" + "\n".join(rows), encoding="utf-8")
    first = longtake("assets", "import", "files.csv")
    assert (first.code, first.output) == (1, "12 added, 0 there already, 2 refused.\n"), first.errors
    assert "Line 5: Its url does not begin with https:// or http://. [IMPORT_FILE_INVALID]" in first.errors
    assert "Line 15: " in first.errors
    again = longtake("assets", "import", "files.csv", "--json").json
    assert (len(again["added"]), len(again["there_already"])) == (0, 12)
    assert [one["line"] for one in again["refused"]] == [5, 15]


@pytest.mark.parametrize("content", [b"", b"title\nx\n", b"\xff\xfe\x00", None])
def test_a_file_that_is_no_list_is_refused(longtake: User, content: bytes | None) -> None:
    if content is not None:
        (longtake.folder / "files.csv").write_bytes(content)
    ended = longtake("assets", "import", "files.csv")
    assert (ended.code, "[IMPORT_FILE_INVALID]" in ended.errors) == (1, True)


def test_an_asset_that_is_not_there_is_told(longtake: User) -> None:
    for command in ("show", "retry"):
        ended = longtake("assets", command, UNKNOWN_ID)
        assert (ended.code, "[NOT_FOUND]\n  `longtake assets list` lists your assets." in ended.errors) == (1, True)


def test_whoever_waits_is_told_what_came_and_what_did_not(longtake: User, source: str) -> None:
    came = longtake("assets", "add", f"{source}/waited.png", "--wait", "--json")
    assert (came.code, came.errors) == (0, "")
    [asset] = came.json["added"]
    assert (asset["save_state"], asset["thumbnail_state"]) == ("success", "completed")
    (longtake.folder / "files.csv").write_text(f"url\n{source}/nothing.mp4\n{source}/waited.png\n")
    missing = longtake("assets", "import", "files.csv", "--wait")
    assert (missing.code, missing.output) == (1, "1 added, 1 there already, 0 refused.\n")
    assert missing.errors.splitlines() == [
        f"{source}/nothing.mp4: no copy: The address of the file answers 404. [SOURCE_GONE] It will be retried.",
        f"{source}/nothing.mp4: no thumbnail: The address of the file answers 404. [SOURCE_GONE] It will be retried.",
    ]


def test_what_one_brought_in_is_deleted_with_its_files_when_it_is_meant(longtake: User, source: str) -> None:
    added = longtake("assets", "add", f"{source}/gone.png", f"{source}/gone-too.png", "--wait", "--json").json["added"]
    first, second = (one["id"] for one in added)
    unsure = longtake("assets", "delete", first)
    assert (unsure.code, "--yes" in unsure.errors) == (2, True)
    assert longtake("assets", "show", first).code == 0
    assert longtake("assets", "delete", first, first, "--yes").output == f"Deleted: {first}.\n"
    # Up to the first that is refused; it is told which are gone.
    partly = longtake("assets", "delete", second[-8:], first, "--yes", "--json")
    assert (partly.code, partly.json) == (1, {"deleted": [second]})
    assert "[NOT_FOUND]\n  `longtake assets list` lists your assets." in partly.errors
    objects = Path(longtake.place.settings["LONGTAKE_DATA_DIR"]) / "objects"

    def left() -> list[str]:
        # Not by rglob: it does not bear that folders go while it looks.
        files = [f"{folder}/{name}" for folder, _folders, names in os.walk(objects) for name in names]
        return [file for file in files if first in file or second in file]

    wait_for(lambda: not left(), "the end of the files")


def test_a_result_goes_with_its_task_when_that_has_ended(longtake: User, sandbox: SandboxProcess) -> None:
    longtake("credits", "grant", "local", "100", "--reason", "a test")
    task = longtake("generate", "a fox that goes", "--json").json
    result = task["results"][0]["id"]
    refused = longtake("assets", "delete", result, "--yes")
    assert (refused.code, "[STATE_CONFLICT]" in refused.errors) == (1, True)
    assert "longtake tasks delete" in refused.errors
    unsure = longtake("tasks", "delete", task["id"])
    assert (unsure.code, "--yes" in unsure.errors) == (2, True)
    # By the end of its id, as everywhere.
    assert longtake("tasks", "delete", task["id"][-8:], "--yes", "--json").json == {"deleted": [task["id"]]}
    assert longtake("assets", "show", result).code == 1
    again = longtake("tasks", "delete", task["id"], "--yes")
    assert (again.code, "[NOT_FOUND]\n  `longtake tasks list` lists your tasks." in again.errors) == (1, True)
    sandbox.settings(seconds={"image": 60})
    try:
        begun = longtake("generate", "a fox that stays", "--no-wait", "--json").json["id"]
        under_way = longtake("tasks", "delete", begun, "--yes")
        assert (under_way.code, "longtake tasks cancel" in under_way.errors) == (1, True)
        longtake("tasks", "cancel", begun)
        assert longtake("tasks", "delete", begun, "--yes").code == 0
    finally:
        sandbox.settings(seconds={"image": 0.3})


def test_whoever_is_asked_may_say_no(longtake: User, source: str) -> None:
    [asset] = longtake("assets", "add", f"{source}/stays.png", "--wait", "--json").json["added"]
    controller, terminal = pty.openpty()
    try:
        os.write(controller, b"n\n")
        command = [sys.executable, "-m", "longtake", "assets", "delete", asset["id"]]
        ended = subprocess.run(
            command, cwd=longtake.folder, env=longtake.place.environment, stdin=terminal, capture_output=True,
            text=True, timeout=60, check=False,
        )  # fmt: skip
    finally:
        os.close(controller)
        os.close(terminal)
    assert ended.returncode == 1
    assert f"Delete the asset {asset['id']}? Files go as well." in ended.stdout + ended.stderr
    assert longtake("assets", "show", asset["id"]).code == 0


def test_operators_see_how_media_fare_and_mend_what_is_stuck(commands: Commands, place: Place) -> None:
    """On the file itself, and through the server that owns it."""
    longtake = commands.at(place)
    place.data.mkdir()
    file = place.data / "longtake.db"
    migrate_service(f"sqlite:///{file}")
    with place.server_here(with_worker=False):
        pass  # From now on the database knows which jobs there are.
    connection = sqlite3.connect(file)
    insert = "INSERT INTO videos (id, user_id, status, video_url) VALUES (?, 'ada', 'completed', ?)"
    stuck, failed = "00000000-0000-4000-8000-000000000001", "00000000-0000-4000-8000-000000000002"
    for number in (stuck, failed):
        connection.execute(insert, (number, f"https://example.com/{number}.mp4?secret"))
    connection.execute("DELETE FROM jobs")
    connection.execute(
        "UPDATE assets SET mirror_state = 'uploading', mirror_tried_at = '2026-01-01 00:00:00.000000' WHERE id = ?",
        (stuck,),
    )
    connection.execute(
        "UPDATE assets SET mirror_state = 'failed', mirror_error = 'SOURCE_GONE: It is gone.' WHERE id = ?", (failed,)
    )
    connection.commit()
    connection.close()
    shown = longtake("assets", "health")
    assert shown.code == 0, shown.errors
    assert [line.split() for line in shown.output.splitlines() if line.startswith("never copied")] == [
        ["never", "copied", "100.0", "%", "<", "10", "%", "missed"]
    ]
    assert stuck in longtake("assets", "stuck").output
    assert "SOURCE_GONE" in longtake("assets", "failures").output
    assert "secret" not in longtake("assets", "failures", "--json").output
    with place.server_here(with_worker=False):
        assert longtake("assets", "stuck", "--json").json["stuck"][0]["id"] == stuck
        assert longtake("assets", "fix-stuck", "--json").json == {"fixed": [stuck]}
        assert longtake("assets", "fix-stuck").output == "0 were stuck.\n"
        assert longtake("assets", "health", "--json").json["stuck"] == 0
        [job] = longtake("jobs", "list", "--kind", "assets.mirror", "--json").json["jobs"]
        assert job["subject"] == stuck
