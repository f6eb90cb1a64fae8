"""Runs over HTTP: what is refused, in which words, and that nothing is written then."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.api.stage import FOR_RUNS, NOTHING, Api, assert_problem, place_for
from tests.scenes.service import PROMPTS, new_run
from tests.wait import wait_for

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.databases import PostgresqlServer


@pytest.fixture(scope="module", params=["sqlite", "postgresql"])
def api(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Api]:
    """A server without a worker on each database in turn, with a user who has credits."""
    folder = tmp_path_factory.mktemp("runs")
    databases: PostgresqlServer | None = None
    url = ""
    if request.param == "postgresql":
        databases = request.getfixturevalue("postgresql_server")
        url = databases.new_database()
    try:
        place = place_for(folder, url, **FOR_RUNS)
        with place.server_here(with_worker=False) as server:
            found = Api(place, server)
            found.grant("ada", 1_000_000)
            yield found
    finally:
        if databases is not None:
            databases.drop_database(url)


def body(**changes: Any) -> dict[str, Any]:
    return {"scenes": [{"prompt": one} for one in PROMPTS[:3]]} | changes


@pytest.mark.parametrize("count", [3, 5, 7, 10])
def test_a_run_has_as_many_scenes_as_it_was_made_with(api: Api, count: int) -> None:
    made = new_run(api, count, title="  A story ")
    assert made.status == 201
    assert made.headers["location"] == f"/v1/runs/{made.json['id']}"
    assert (made.json["title"], made.json["status"], len(made.json["scenes"])) == ("A story", "created", count)
    assert api.ask("GET", made.headers["location"]).json == made.json


@pytest.mark.parametrize(
    ("changes", "code", "words"),
    [
        ({"scenes": []}, "SCENE_COUNT_INVALID", "A run must have 3, 5, 7 or 10 scenes, not 0."),
        ({"scenes": [{"prompt": "a"}] * 4}, "SCENE_COUNT_INVALID", "not 4"),
        ({"scenes": [{"prompt": "a"}] * 11}, "SCENE_COUNT_INVALID", "not 11"),
        ({"scenes": [{"prompt": "a"}, {"prompt": " \n"}, {"prompt": "b"}]}, "PROMPT_INVALID", "Scene 2: "),
        ({"scenes": [{"prompt": "a"}, {"prompt": "b"}, {"prompt": "x" * 5_001}]}, "PROMPT_INVALID", "Scene 3: "),
        ({"scenes": [{"prompt": "\u0001"}] * 3}, "PROMPT_INVALID", "Scene 1: "),
        ({"scenes": [{"prompt": "a", "more": 1}] * 3}, "REQUEST_INVALID", "more"),
        ({"scenes": [{}] * 3}, "REQUEST_INVALID", "prompt"),
        ({"scenes": "many"}, "REQUEST_INVALID", "scenes"),
        ({"scenes": [{"prompt": "a"}] * 101}, "REQUEST_INVALID", "scenes"),
        ({"title": "x" * 201}, "REQUEST_INVALID", "title"),
        ({"title": "\u0007"}, "TEXT_INVALID", "title"),
        ({"advance": "yes"}, "REQUEST_INVALID", "advance"),
        ({"model": "nano-bananna"}, "MODEL_UNKNOWN", "There is no model"),
        ({"model": "veo-3.1-fast"}, "MODEL_UNKNOWN", "makes videos"),
        ({"model": "nano-banana"}, "MODEL_NOT_FOR_SCENES", "nano-banana"),
        ({"parameters": {"aspect": "1:1"}}, "PARAMETER_UNKNOWN", "aspect"),
        ({"parameters": {"aspect_ratio": "1:7"}}, "PARAMETER_INVALID", "aspect_ratio"),
    ],
)
def test_a_run_that_cannot_be_made_is_refused_and_leaves_nothing(
    api: Api, changes: dict[str, Any], code: str, words: str
) -> None:
    before = api.written()
    answer = api.ask("POST", "/v1/runs", body(**changes))
    assert_problem(answer, 422, code)
    assert words in answer.json["detail"]
    assert api.written() == before


def test_a_model_that_does_not_fit_names_those_that_do(api: Api) -> None:
    refused = api.ask("POST", "/v1/runs", body(model="nano-banana")).json
    assert refused["hint"] == "Use gemini-flash-image or gemini-pro-image."
    assert refused["models"] == ["gemini-flash-image", "gemini-pro-image"]


def test_a_prompt_that_is_wrong_is_named_by_its_scene(api: Api) -> None:
    refused = api.ask("POST", "/v1/runs", body(scenes=[{"prompt": "a"}, {"prompt": "b"}, {"prompt": ""}])).json
    assert (refused["scene"], refused["detail"]) == (3, "Scene 3: The prompt is empty.")


def test_the_same_key_makes_one_run(api: Api) -> None:
    before = api.written()
    first, again = (new_run(api, 3, headers={"Idempotency-Key": "once"}, advance=True) for _ in range(2))
    assert (first.status, again.status) == (201, 201)
    assert first.json == again.json
    assert again.headers["idempotent-replayed"] == "true"
    after = api.written()
    assert {name: after[name] - before[name] for name in ("scene_runs", "image_jobs", "jobs")} == {
        "scene_runs": 1, "image_jobs": 3, "jobs": 3,
    }  # fmt: skip
    other = new_run(api, 5, headers={"Idempotency-Key": "once"})
    assert_problem(other, 422, "IDEMPOTENCY_KEY_REUSED")


def test_advance_answers_before_any_image_is_made(api: Api) -> None:
    run_id = new_run(api, 10).json["id"]
    done = api.ask("POST", f"/v1/runs/{run_id}/advance")
    assert (done.status, done.json["action"], done.json["queued"]) == (200, "images_queued", 10)
    assert [scene["state"] for scene in done.json["run"]["scenes"]] == ["queued"] * 10


def test_advance_takes_a_body_or_none(api: Api) -> None:
    run_id = new_run(api, 3).json["id"]
    assert api.ask("POST", f"/v1/runs/{run_id}/advance", {"failed": True}).json["action"] == "images_queued"
    assert api.ask("POST", f"/v1/runs/{run_id}/advance", {}).json["action"] == "images_in_progress"
    for wrong in ({"failed": "yes"}, {"more": 1}):
        assert_problem(api.ask("POST", f"/v1/runs/{run_id}/advance", wrong), 422, "REQUEST_INVALID")
    assert_problem(api.ask("POST", f"/v1/runs/{run_id}/advance", []), 400, "JSON_INVALID")


def test_without_credits_nothing_is_queued_and_the_run_is_not_made(api: Api) -> None:
    before = api.written()
    assert_problem(new_run(api, 3, user="poor", advance=True), 402, "INSUFFICIENT_CREDITS")
    assert api.written() == before


def test_scenes_that_are_not_there_cannot_be_made_again(api: Api) -> None:
    run_id = new_run(api, 3).json["id"]
    assert_problem(api.ask("POST", f"/v1/runs/{run_id}/scenes/4/regenerate"), 404, "NOT_FOUND")
    for wrong in ("0", "-1", "one", "1000"):
        assert_problem(api.ask("POST", f"/v1/runs/{run_id}/scenes/{wrong}/regenerate"), 422, "REQUEST_INVALID")
    prompt = {"prompt": " "}
    assert_problem(api.ask("POST", f"/v1/runs/{run_id}/scenes/1/regenerate", prompt), 422, "PROMPT_INVALID")
    assert api.ask("POST", f"/v1/runs/{run_id}/scenes/1/regenerate").json["scenes"][0]["state"] == "queued"
    assert_problem(api.ask("POST", f"/v1/runs/{run_id}/scenes/1/regenerate"), 409, "STATE_CONFLICT")


def test_a_run_is_cancelled_and_deleted(api: Api) -> None:
    available, held = api.balance()
    run_id = new_run(api, 3, advance=True).json["id"]
    assert_problem(api.ask("DELETE", f"/v1/runs/{run_id}"), 409, "STATE_CONFLICT")
    cancelled = api.ask("POST", f"/v1/runs/{run_id}/cancel")
    assert (cancelled.status, cancelled.json["status"]) == (200, "cancelled")
    assert api.balance() == (available, held)
    assert_problem(api.ask("POST", f"/v1/runs/{run_id}/advance"), 409, "STATE_CONFLICT")
    assert api.ask("DELETE", f"/v1/runs/{run_id}").status == 204
    assert_problem(api.ask("GET", f"/v1/runs/{run_id}"), 404, "NOT_FOUND")
    assert_problem(api.ask("DELETE", f"/v1/runs/{NOTHING}"), 404, "NOT_FOUND")


def test_lists_go_on_where_they_ended(api: Api) -> None:
    ids = [new_run(api, 3, user="carol").json["id"] for _ in range(3)]
    first = api.ask("GET", "/v1/runs?limit=2", user="carol").json
    assert ([one["id"] for one in first["runs"]], first["next"]) == (ids[:0:-1], ids[1])
    rest = api.ask("GET", f"/v1/runs?limit=2&before={first['next']}", user="carol").json
    assert ([one["id"] for one in rest["runs"]], rest["next"]) == (ids[:1], None)


def test_more_images_than_one_user_may_have_are_refused(tmp_path_factory: pytest.TempPathFactory) -> None:
    place = place_for(tmp_path_factory.mktemp("few"), unfinished_tasks="12", **FOR_RUNS)
    with place.server_here(with_worker=False) as server:
        api = Api(place, server)
        api.grant()
        assert new_run(api, 10, advance=True).status == 201
        assert_problem(new_run(api, 3, advance=True), 429, "TASKS_TOO_MANY")
        assert wait_for(lambda: api.sql("SELECT count(*) FROM image_jobs"), "rows") == [(10,)]
