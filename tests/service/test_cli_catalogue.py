"""`longtake catalogue`: titles by command, on a server that runs and on one elsewhere."""

from __future__ import annotations

import csv
import json
import os
import re
import sqlite3
import sys
from contextlib import closing
from typing import TYPE_CHECKING, Any

import pytest

from longtake.cli import catalogue_imports
from tests.sandbox_process import SandboxProcess
from tests.service.cli_users import User, command, place_with, typed
from tests.service.conftest import TITLES
from tests.service.processes import Place, Server
from tests.wait import PATIENCE_SECONDS, wait_for

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.sandbox_process import SandboxProcess
    from tests.service.conftest import Commands

UNKNOWN_ID = "0199c1f2-7a40-7cc3-98c4-dc0c0c07398f"


def catalogue_place(sandbox: SandboxProcess, folder: Path, **settings: str) -> Place:
    known = {
        "LONGTAKE_TMDB_API_KEY": sandbox.key,
        "LONGTAKE_TMDB_BASE_URL": sandbox.tmdb_url,
        "LONGTAKE_TMDB_IMAGES_URL": sandbox.tmdb_images_url,
        "LONGTAKE_BANGUMI_BASE_URL": sandbox.bangumi_url,
        "LONGTAKE_BANGUMI_IMAGES_URL": sandbox.bangumi_images_url,
    }
    return place_with(sandbox, folder, **known | settings)


@pytest.fixture(scope="module")
def truth(sandbox: SandboxProcess) -> list[dict[str, Any]]:
    return sandbox.titles()


@pytest.fixture(scope="module")
def home(sandbox: SandboxProcess, tmp_path_factory: pytest.TempPathFactory) -> Place:
    return catalogue_place(sandbox, tmp_path_factory.mktemp("home"))


@pytest.fixture(scope="module")
def server(home: Place) -> Iterator[Server]:
    with home.server_here() as running:
        yield running


@pytest.fixture
def longtake(home: Place, server: Server, tmp_path: Path, commands: Commands, monkeypatch: pytest.MonkeyPatch) -> User:
    assert server.url
    return User(Place(tmp_path, {**home.settings, "LONGTAKE_DATA_DIR": str(home.data)}), commands, monkeypatch)


def write_csv(file: Path, truth: list[dict[str, Any]]) -> None:
    with file.open("w", encoding="utf-8-sig", newline="") as out:
        writer = csv.writer(out)
        writer.writerow(["bangumi_id", "title_japanese", "title_chinese", "year", "poster"])
        for one in truth:
            names = one["names"]
            writer.writerow([one["bangumi_id"], names["ja"], names["zh"], one["year"], one["cover_url"]])


def in_doubt(longtake: User, truth: list[dict[str, Any]]) -> dict[str, Any]:
    """A title that may be several shows, with what it may be."""
    number = next(one["bangumi_id"] for one in truth if one["kind"] == "ambiguous")
    known = next(one for one in truth if one["bangumi_id"] == number)
    longtake("catalogue", "add", known["names"]["ja"], "--bangumi", str(number), "--year", str(known["year"]))
    longtake("catalogue", "match", str(number), "--automatic")
    assert longtake("catalogue", "sync", "--wait").code == 0
    title: dict[str, Any] = longtake("catalogue", "show", str(number), "--json").json
    assert title["tmdb_state"] == "in_doubt"
    return title


def test_a_title_is_added_by_its_number_and_soon_has_all(longtake: User, truth: list[dict[str, Any]]) -> None:
    known = next(one for one in truth if one["kind"] == "exact")
    number = str(known["bangumi_id"])
    added = longtake("catalogue", "add", "--bangumi", number)
    assert added.code == 0, added.errors
    title_id, told = added.output.splitlines()
    assert told.endswith(" was added.")

    def finished() -> bool:
        title = longtake("catalogue", "show", number, "--json").json
        return (title["poster_state"], title["tmdb_id"]) == ("stored", known["tmdb_id"])

    wait_for(finished, "poster and id")
    assert known["names"]["ja"] in longtake("catalogue", "show", title_id).output
    # By the end of its id, as tasks are found.
    assert longtake("catalogue", "show", title_id[-8:], "--json").json["bangumi_id"] == known["bangumi_id"]
    again = longtake("catalogue", "add", "--bangumi", number, "--json").json
    assert (again["result"], again["title"]["id"]) == ("unchanged", title_id)
    changed = longtake("catalogue", "add", "--bangumi", number, "--english", "A fox", "--json").json
    assert (changed["result"], changed["title"]["title_english"]) == ("updated", "A fox")


def test_an_id_that_ends_with_digits_is_found_by_its_end_unless_a_title_has_that_number(
    longtake: User, home: Place
) -> None:
    ends = {"34567890": "狐の巣", "34567891": "狐の尾"}
    made = {end: longtake("catalogue", "add", name, "--json").json["title"]["id"] for end, name in ends.items()}

    def change(column: str, value: object, title_id: str) -> None:
        file = home.data / "longtake.db"
        with closing(sqlite3.connect(file, timeout=PATIENCE_SECONDS)) as outside, outside:
            outside.execute(f"UPDATE titles SET {column} = ? WHERE id = ?", (value, title_id))

    for end, title_id in made.items():
        change("id", title_id[:-8] + end, title_id)
    shown = longtake("catalogue", "show", "34567890", "--json").json
    assert shown["title_japanese"] == "狐の巣"
    change("bangumi_id", 34567891, shown["id"])
    assert longtake("catalogue", "show", "34567891", "--json").json["title_japanese"] == "狐の巣"
    unknown = longtake("catalogue", "show", "34567899")
    assert (unknown.code, "No title has the Bangumi number 34567899" in unknown.errors) == (1, True)


def test_a_file_is_imported_with_its_bad_lines_told_and_again_changes_nothing(
    longtake: User, truth: list[dict[str, Any]]
) -> None:
    file = longtake.folder / "titles.csv"
    write_csv(file, truth)
    with file.open("a", encoding="utf-8", newline="") as out:
        out.write("12a,No number,,2001,\r\n7,Too,many,2001,,cells\r\n,,,2001,\r\n")
    first = longtake("catalogue", "import", "titles.csv")
    lines = first.errors.splitlines()
    assert first.code == 1
    assert first.output.endswith(", 3 refused.\n")
    assert lines[0].startswith(f"longtake: Line {TITLES + 2}: bangumi_id is '12a'")
    assert f"longtake: Line {TITLES + 3}: It has 6 cells; the header has 5. [IMPORT_FILE_INVALID]" in lines
    assert f"Line {TITLES + 4}: The title has neither a Bangumi id nor a name. [TITLE_INVALID]" in first.errors
    again = longtake("catalogue", "import", "titles.csv", "--json")
    assert (again.code, again.json["unchanged"], again.json["refused"]) == (1, TITLES, 3)
    assert [one["line"] for one in again.json["refusals"]] == [TITLES + 2, TITLES + 3, TITLES + 4]
    waited = longtake("catalogue", "sync", "--wait")
    assert (waited.code, waited.output.startswith("The sync is done: ")) == (0, True), waited.errors
    status = longtake("catalogue", "status", "--json").json
    assert (status["syncing"], status["posters"]["remote"], status["tmdb"]["waiting"]) == (False, 0, 0)
    listed = longtake("catalogue", "list", "--poster", "stored", "--tmdb", "found", "--limit", "200")
    exact = [one for one in truth if one["kind"] == "exact"]
    assert all(str(one["bangumi_id"]) in listed.output for one in exact)
    page = longtake("catalogue", "list", "--limit", "1")
    assert "There are more: add --before " in page.errors
    year = exact[0]["year"]
    of_year = longtake("catalogue", "list", "--year", str(year), "--json").json["titles"]
    assert {one["year"] for one in of_year} == {year}


def test_json_lines_are_imported_from_a_file_and_from_a_pipe(longtake: User) -> None:
    good = [{"title_english": f"Line {number}", "year": 2000 + number} for number in range(3)]
    bad = ["[1]", '{"titel": "x"}', '{"bangumi_id": 5, "bangumi_id": 6}', '{"title_english": "x", "year": 1e400}', "no"]
    text = "\n".join([json.dumps(good[0]), *bad, "", *(json.dumps(one) for one in good[1:]), '{"title_english": "half'])
    (longtake.folder / "titles.ndjson").write_text(text, encoding="utf-8")
    ended = longtake("catalogue", "import", "titles.ndjson", "--json")
    assert (ended.code, ended.json["created"]) == (1, 3), ended.errors
    assert [one["line"] for one in ended.json["refusals"]] == [2, 3, 4, 5, 6, 10]
    assert "Line 3: It has titel, which is not known. Expected: bangumi_id, " in ended.errors
    reading, writing = os.pipe()
    os.write(writing, json.dumps(good[0]).encode())
    os.close(writing)
    with os.fdopen(reading, encoding="utf-8") as pipe, longtake.monkeypatch.context() as patched:
        patched.setattr(sys, "stdin", pipe)
        piped = longtake("catalogue", "import", "-")
    assert (piped.code, piped.output) == (0, "0 created, 0 updated, 1 unchanged, 0 refused.\n"), piped.errors


def test_more_than_a_batch_goes_in_and_lines_that_are_no_text_do_not(longtake: User) -> None:
    rows = [b"title_english,year", *(f"Batch {number},1999".encode() for number in range(1_100))]
    rows[700] = b"\xff\xfe,1999"
    rows[900] = b"x" * 250_000
    (longtake.folder / "titles.csv").write_bytes(b"\n".join(rows))
    ended = longtake("catalogue", "import", "titles.csv", "--json")
    assert (ended.code, ended.json["created"]) == (1, 1_098), ended.errors
    assert [(one["line"], one["message"]) for one in ended.json["refusals"]] == [
        (701, "It is not text in UTF-8."),
        (901, "It has more than 100,000 characters."),
    ]


@pytest.mark.parametrize("content", [b"", b"title_english,colour\nx,y\n", b"year\n2001\n", b"\xff\xfe\x00", None])
def test_a_file_that_is_no_list_is_refused(longtake: User, content: bytes | None) -> None:
    if content is not None:
        (longtake.folder / "titles.csv").write_bytes(content)
    ended = longtake("catalogue", "import", "titles.csv")
    assert (ended.code, "[IMPORT_FILE_INVALID]\n  It is CSV in UTF-8" in ended.errors) == (1, True)
    if content and b"colour" in content:
        assert "of which colour is not known" in ended.errors


def test_a_person_chooses_which_show_a_title_is(longtake: User, truth: list[dict[str, Any]]) -> None:
    title = in_doubt(longtake, truth)
    first = title["tmdb_candidates"][0]["tmdb_id"]
    # Where nobody can be asked, it is said how to choose.
    shown = longtake("catalogue", "match", title["id"])
    assert (shown.code, str(first) in shown.output, "SHOW" in shown.errors) == (0, True, True)
    chosen = longtake("catalogue", "match", title["id"], str(first))
    assert chosen.output.endswith(f" is {first} at TMDB.\n")
    assert longtake("catalogue", "show", title["id"], "--json").json["tmdb_found_by"] == "person"
    assert longtake("catalogue", "match", title["id"], "--none", "--json").json["tmdb_id"] is None
    wrong = longtake("catalogue", "match", title["id"], "9999999")
    assert (wrong.code, "TMDB has no show 9999999. [TITLE_INVALID]" in wrong.errors) == (1, True)
    assert longtake("catalogue", "match", title["id"], "1", "--none").code == 2


@pytest.mark.parametrize(("keys", "state"), [(b"9\n1\n", "found"), (b"n\n", "none"), (b"\n", "in_doubt")])
def test_whoever_sits_at_a_terminal_is_asked(
    longtake: User, truth: list[dict[str, Any]], keys: bytes, state: str
) -> None:
    title = in_doubt(longtake, truth)
    with typed(longtake.monkeypatch, keys):
        ended = longtake("catalogue", "match", title["id"])
    assert ended.code == 0, ended.errors
    assert longtake("catalogue", "show", title["id"], "--json").json["tmdb_state"] == state


def test_a_poster_is_fetched_by_its_address_and_a_wrong_one_refused(
    longtake: User, truth: list[dict[str, Any]]
) -> None:
    [one, other] = [known for known in truth if known["kind"] == "exact"][1:3]
    longtake("catalogue", "add", one["names"]["ja"], "--bangumi", str(one["bangumi_id"]))
    begun = longtake("catalogue", "download", str(one["bangumi_id"]), other["cover_url"])
    assert begun.code == 0, begun.errors
    assert longtake("catalogue", "sync", "--wait").code == 0
    title = longtake("catalogue", "show", str(one["bangumi_id"]), "--json").json
    assert (title["poster_state"], title["poster_source"]) == ("stored", other["cover_url"])
    refused = longtake("catalogue", "download", str(one["bangumi_id"]), "ftp://example.com/a.jpg")
    assert (refused.code, "[POSTER_PATH_INVALID]" in refused.errors) == (1, True)


def test_what_is_stopped_waits_until_it_is_started(longtake: User, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(catalogue_imports, "IDLE_SECONDS", 0.2)
    stopped = longtake("catalogue", "stop")
    assert (stopped.code, "no work is running" in stopped.output) == (0, True)
    try:
        shown = longtake("catalogue", "status")
        assert "none: `longtake catalogue start`" in shown.output
        waited = longtake("catalogue", "sync", "--wait")
        assert (waited.code, "No worker is alive for the catalogue" in waited.errors) == (1, True)
        with command(longtake.place, "catalogue", "sync", "--wait") as running:
            assert re.search(r", (1 job|[\d,]+ jobs) left$", running.line())
            code, _output, errors = running.interrupt()
        assert (code, "Only the waiting has ended. The work itself goes on" in errors) == (130, True)
    finally:
        assert longtake("catalogue", "start", "--json").json == {"started": True}
    assert longtake("catalogue", "sync", "--wait", "--json").json["status"]["syncing"] is False


def test_the_calendar_makes_titles(longtake: User) -> None:
    ended = longtake("catalogue", "refresh-calendar", "--wait")
    assert ended.code == 0, ended.errors
    assert ended.output.startswith("The refresh of the calendar is done: ")
    assert longtake("catalogue", "status", "--json").json["titles"] > 0
    begun = longtake("catalogue", "refresh-calendar")
    assert "The refresh of the calendar has started: job " in begun.output


def test_a_title_is_deleted_when_it_is_meant(longtake: User) -> None:
    title_id = longtake("catalogue", "add", "狐の話", "--year", "1999").output.split()[0]
    unsure = longtake("catalogue", "delete", title_id)
    assert (unsure.code, "--yes" in unsure.errors) == (2, True)
    assert longtake("catalogue", "delete", title_id, "--yes").output == f"Deleted: {title_id}.\n"
    gone = longtake("catalogue", "show", title_id)
    assert (gone.code, "[NOT_FOUND]\n  `longtake catalogue list` lists the titles." in gone.errors) == (1, True)


@pytest.mark.parametrize(
    ("arguments", "code", "told"),
    [
        (["show", UNKNOWN_ID], 1, "[NOT_FOUND]"),
        (["show", "99999999"], 1, "`longtake catalogue add --bangumi 99999999` adds it"),
        (["show", "zzzz"], 1, "None of the newest 200 titles"),
        (["show", "z" * 40], 1, "[REQUEST_INVALID]"),
        (["add"], 2, "a title has a name, or --bangumi"),
        (["add", "x", "--year", "12"], 1, "[TITLE_INVALID]"),
        (["add", "x", "--poster", "/etc/passwd"], 1, "[POSTER_PATH_INVALID]"),
        (["list", "--tmdb", "maybe"], 2, "maybe"),
    ],
)
def test_what_cannot_be_is_told_clearly(longtake: User, arguments: list[str], code: int, told: str) -> None:
    ended = longtake("catalogue", *arguments)
    assert (ended.code, told in ended.errors) == (code, True), ended.errors


def test_elsewhere_the_log_in_says_what_one_may(
    longtake: User, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    tokens = {role: longtake("token", "--user", "ada", "--role", role).output.strip() for role in ("user", "operator")}
    monkeypatch.setenv("LONGTAKE_SERVER", server.url)
    monkeypatch.setenv("LONGTAKE_TOKEN", tokens["user"])
    assert longtake("catalogue", "status").code == 0
    refused = longtake("catalogue", "add", "狐")
    assert (refused.code, "[FORBIDDEN]" in refused.errors, "--role operator" in refused.errors) == (1, True, True)
    monkeypatch.setenv("LONGTAKE_TOKEN", tokens["operator"])
    assert longtake("catalogue", "add", "狐", "--json").json["result"] == "created"
