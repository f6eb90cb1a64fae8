"""POST /v1/internal/process: for hosts without a worker of their own."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import pytest

from tests.api.stage import Api, assert_problem
from tests.scenes.service import INTERNAL_SECRET, new_run, process, scene_place, serving_here
from tests.wait import wait_for

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.sandbox_process import SandboxProcess
    from tests.service.conftest import Commands

#: As long as may be asked for, and longer than the caller waits: the answer comes as soon as nothing is due.
AMPLE_SECONDS = 300.0


@pytest.fixture
def api(database_url: str, tmp_path: Path, sandbox: SandboxProcess) -> Iterator[Api]:
    url = database_url if database_url.startswith("postgresql") else ""
    with serving_here(scene_place(tmp_path, sandbox, url), sandbox) as found:
        found.grant()
        yield found


def status(api: Api, run_id: str) -> str:
    return str(api.ask("GET", f"/v1/runs/{run_id}").json["status"])


def lapses(api: Api) -> list[dict[str, str]]:
    """Return what the server's log says of jobs that were given back because their permits had lapsed."""
    told = [json.loads(line) for line in api.server.log.read_text().splitlines() if line.startswith("{")]
    return [one for one in told if one.get("action") == "lapse"]


def test_it_works_off_the_queue_and_answers_when_nothing_is_due(api: Api) -> None:
    run_id = new_run(api, 5, advance=True).json["id"]
    assert status(api, run_id) == "generating"
    answer = process(api, AMPLE_SECONDS)
    assert answer.status == 200, answer.body
    done = answer.json
    # Five images and their thumbnails, beside what schedules brought.
    assert done["finished"] >= 10
    assert done["failed"] == 0
    # On a busy machine a start may come too late for its lane. Nothing is given back but that, and it costs no try.
    lapsed = lapses(api)
    assert done["given_back"] == len(lapsed)
    assert {one["lane"] for one in lapsed} <= {"gemini.scenes"}
    run = api.ask("GET", f"/v1/runs/{run_id}").json
    assert run["status"] == "completed"
    assert all(scene["image_url"] and scene["thumbnail_url"] for scene in run["scenes"])
    assert [scene["attempt"] for scene in run["scenes"]] == [1] * 5
    ended = api.sql("SELECT id, state, attempt FROM jobs_ended WHERE kind = 'scenes.image'")
    assert [(state, attempt) for _id, state, attempt in ended] == [("done", 1)] * 5
    assert {one["job_id"] for one in lapsed} <= {str(job_id) for job_id, _state, _attempt in ended}
    assert api.sql("SELECT count(*) FROM workers") == [(0,)]
    assert api.sandbox is not None
    assert len(api.sandbox.calls(route="submit")) == 5


def test_a_queue_with_nothing_in_it_is_answered_soon(api: Api) -> None:
    process(api, AMPLE_SECONDS)
    # Its time is longer than the caller waits for an answer.
    done = process(api, AMPLE_SECONDS).json
    assert done["failed"] == 0
    # No lane that gives permits had anything to start, so that none can have lapsed.
    assert done["given_back"] == 0


def test_what_does_not_fit_is_given_back_in_time(api: Api) -> None:
    assert api.sandbox is not None
    # Longer than the caller waits for an answer: none of them has come when it is there.
    api.sandbox.faults("delay", delay=600.0, route="submit")
    run_id = new_run(api, 3, advance=True).json["id"]
    done = process(api, 4).json
    assert done["given_back"] >= 3
    run = api.ask("GET", f"/v1/runs/{run_id}").json
    assert [scene["state"] for scene in run["scenes"]] == ["queued"] * 3
    api.sandbox.clear_faults()
    assert process(api, AMPLE_SECONDS).status == 200
    run = api.ask("GET", f"/v1/runs/{run_id}").json
    # What was given back was no try.
    assert (run["status"], [scene["attempt"] for scene in run["scenes"]]) == ("completed", [1, 1, 1])


def test_beside_itself_each_image_is_made_once(api: Api) -> None:
    assert api.sandbox is not None
    run_ids = [new_run(api, 10, advance=True).json["id"] for _ in range(2)]
    with ThreadPoolExecutor(3) as pool:
        answers = list(pool.map(lambda _number: process(api, AMPLE_SECONDS), range(3)))
    assert [answer.status for answer in answers] == [200] * 3
    wait_for(lambda: {status(api, one) for one in run_ids} == {"completed"}, "the end of both runs")
    assert len(api.sandbox.calls(route="submit")) == 20
    assert api.balance() == (1_000 - 20 * 5, 0)


def test_without_the_secret_nothing_is_done(api: Api) -> None:
    run_id = new_run(api, 3, advance=True).json["id"]
    for wrong in (None, "", "wrong", INTERNAL_SECRET + "x", INTERNAL_SECRET[:-1], "ü" * 20):
        shown = None if wrong is None else wrong.encode().decode("latin-1")
        refused = process(api, 2, secret=shown)
        assert_problem(refused, 401, "INTERNAL_SECRET_REFUSED")
    # A user's token is no secret, whoever they are.
    for role in ("user", "admin"):
        answer = api.ask("POST", "/v1/internal/process", {}, role=role)
        assert_problem(answer, 401, "INTERNAL_SECRET_REFUSED")
    assert status(api, run_id) == "generating"
    assert api.sandbox is not None
    assert api.sandbox.calls(route="submit") == []


@pytest.fixture(scope="module")
def refusing_api(tmp_path_factory: pytest.TempPathFactory, shared_sandbox: SandboxProcess) -> Iterator[Api]:
    """One server for what is refused before anything is looked up."""
    with serving_here(scene_place(tmp_path_factory.mktemp("refusing"), shared_sandbox), shared_sandbox) as found:
        yield found


@pytest.mark.parametrize("seconds", [0, 0.5, 301, "long", None])
def test_a_time_that_makes_no_sense_is_refused(refusing_api: Api, seconds: object) -> None:
    headers = {"X-Internal-Secret": INTERNAL_SECRET}
    answer = refusing_api.ask("POST", "/v1/internal/process", {"seconds": seconds}, user=None, headers=headers)
    assert_problem(answer, 422, "REQUEST_INVALID")


def test_without_the_setting_there_is_nothing(tmp_path: Path, sandbox: SandboxProcess) -> None:
    with serving_here(scene_place(tmp_path, sandbox, internal_secret=""), sandbox) as api:
        assert_problem(process(api, 2), 404, "NOT_FOUND")
        assert_problem(process(api, 2, secret=None), 404, "NOT_FOUND")


def test_guessing_is_limited_by_address(tmp_path: Path, sandbox: SandboxProcess) -> None:
    place = scene_place(tmp_path, sandbox, failed_logins_per_minute="1")
    with serving_here(place, sandbox) as api:
        assert process(api, 1).status == 200
        assert process(api, 1, secret="a guess").status == 401
        assert_problem(process(api, 1, secret="another guess"), 429, "RATE_LIMITED")
        # Who was in before stays in.
        assert process(api, 1).status == 200


def test_a_secret_that_is_too_short_stops_the_server(
    commands: Commands, tmp_path: Path, sandbox: SandboxProcess
) -> None:
    place = scene_place(tmp_path, sandbox, internal_secret="short")
    stopped = commands.at(place)("serve", "--no-worker")
    assert stopped.code != 0
    assert "LONGTAKE_INTERNAL_SECRET" in stopped.errors
    assert "at least 16 characters" in stopped.errors
    assert "short" not in stopped.errors


def test_beside_a_worker_each_image_is_made_once(tmp_path: Path, sandbox: SandboxProcess) -> None:
    with serving_here(scene_place(tmp_path, sandbox), sandbox, with_worker=True) as api:
        api.grant()
        run_ids = [new_run(api, 10, advance=True).json["id"] for _ in range(2)]
        assert process(api, 10).status == 200
        wait_for(lambda: {status(api, one) for one in run_ids} == {"completed"}, "the end of both runs")
        assert len(sandbox.calls(route="submit")) == 20
