"""TMDB and Bangumi misbehave by the same rules as all others, on each of their routes."""

from __future__ import annotations

import http.client
import json
from typing import TYPE_CHECKING

import pytest

from tests.sandbox.wire import Answer, ask

if TYPE_CHECKING:
    from tests.sandbox_process import SandboxProcess

ROUTES = {
    "discover": ("tmdb", "/tmdb/3/discover/tv"),
    "search": ("tmdb", "/tmdb/3/search/tv?query=Azure"),
    "details": ("tmdb", "/tmdb/3/tv/60000"),
    "calendar": ("bangumi", "/bangumi/calendar"),
    "subject": ("bangumi", "/bangumi/v0/subjects/100003"),
}


def call(sandbox: SandboxProcess, route: str, seconds: float = 10) -> Answer:
    headers = {"Authorization": f"Bearer {sandbox.key}", "User-Agent": "longtake-tests/1.0"}
    return ask("GET", sandbox.url + ROUTES[route][1], headers=headers, seconds=seconds)


@pytest.mark.parametrize("route", ROUTES)
def test_a_body_can_be_no_answer(sandbox: SandboxProcess, route: str) -> None:
    provider = ROUTES[route][0]
    for kind, is_json in (("html", False), ("garbage", False), ("empty", False), ("delay", True)):
        rule = sandbox.faults(kind, provider=provider, route=route, times=1, delay=0.01)
        answer = call(sandbox, route)
        assert (answer.status, sandbox.applied(rule)) == (200, 1)
        try:
            answer.json  # noqa: B018 - whether it can be read is the question
        except json.JSONDecodeError:
            assert not is_json, kind
        else:
            assert is_json, kind
    assert [one["fault"] for one in sandbox.calls(provider=provider, route=route)] == [
        "html", "garbage", "empty", "delay",
    ]  # fmt: skip


@pytest.mark.parametrize("route", ROUTES)
def test_an_answer_can_fail_to_arrive(sandbox: SandboxProcess, route: str) -> None:
    for kind, error in (
        ("drop", (http.client.RemoteDisconnected, ConnectionResetError)),
        ("hang", (TimeoutError,)),
        ("truncated", (http.client.IncompleteRead,)),
    ):
        sandbox.faults(kind, path_contains=ROUTES[route][1].partition("?")[0], times=1)
        with pytest.raises(error):
            call(sandbox, route, seconds=0.3)
    assert call(sandbox, route).status == 200
