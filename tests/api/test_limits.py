"""How much one user may ask for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.api.stage import Api, assert_problem, picture, place_for
from tests.wait import wait_for

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def narrow_api(tmp_path: Path) -> Iterator[Api]:
    """A server where one user may send two requests at once, and have two tasks."""
    place = place_for(tmp_path, requests_per_minute="20", unfinished_tasks="2", reference_bytes="2000")
    with place.server_here(with_worker=False) as server:
        yield Api(place, server)


def test_too_many_requests_are_refused_for_one_user_alone(narrow_api: Api) -> None:
    answers = [narrow_api.ask("GET", "/v1/credits") for _ in range(4)]
    assert [answer.status for answer in answers[:2]] == [200, 200]
    assert_problem(answers[3], 429, "RATE_LIMITED")
    assert 1 <= int(answers[3].headers["retry-after"]) <= 3
    assert narrow_api.ask("GET", "/v1/credits", user="bob").status == 200


def test_too_many_tasks_are_refused_and_nothing_is_held_for_them(narrow_api: Api) -> None:
    for user in ("ada", "bob", "carol"):
        # Each name a bucket of its own: the rate must not be what refuses.
        narrow_api.server.operate("credits.grant", user_id=user, amount=100, reason="test", by="test")
    service: dict[str, Any] = {"role": "service", "headers": {"Longtake-User": "ada"}}
    tasks = [narrow_api.generate(user="shop", **service).json["id"] for _ in range(2)]
    before = narrow_api.written()

    def refused() -> bool:
        answer = narrow_api.generate(user="shop", key=None, **service)
        if answer.json["code"] == "RATE_LIMITED":
            return False
        assert_problem(answer, 429, "TASKS_TOO_MANY")
        assert answer.json["limit"] == len(set(tasks)) == 2
        return True

    wait_for(refused, "a request that is not too early")
    assert narrow_api.written() == before


def test_an_upload_that_is_too_large_is_refused(narrow_api: Api) -> None:
    large = picture() + b"x" * 2_000
    answer = narrow_api.ask("POST", "/v1/references", body=large, headers={"Content-Type": "image/png"})
    assert_problem(answer, 413, "OBJECT_TOO_LARGE")
    assert narrow_api.written()["assets"] == 0
