"""Bangumi on the wire: the calendar, subjects, and who is let in."""

from __future__ import annotations

from datetime import date
from typing import TYPE_CHECKING, Any

import pytest

from longtake_sandbox.catalogues import names_an_application
from tests.sandbox.wire import Answer, ask

if TYPE_CHECKING:
    from tests.sandbox_process import SandboxProcess

WHO = {"User-Agent": "longtake-tests/1.0 (https://example.com/longtake)"}


def bangumi(sandbox: SandboxProcess, path: str) -> Answer:
    return ask("GET", sandbox.bangumi_url + path, headers=WHO)


@pytest.fixture
def items(sandbox: SandboxProcess) -> list[Any]:
    return [item for day in bangumi(sandbox, "/calendar").json for item in day["items"]]


def test_a_calendar_has_seven_days_and_each_title_on_its_own(sandbox: SandboxProcess) -> None:
    days = bangumi(sandbox, "/calendar").json
    assert [day["weekday"]["id"] for day in days] == [1, 2, 3, 4, 5, 6, 7]
    assert days[0]["weekday"] == {"en": "Mon", "cn": "星期一", "ja": "月耀日", "id": 1}
    for day in days:
        for item in day["items"]:
            assert item["air_weekday"] == day["weekday"]["id"] == date.fromisoformat(item["air_date"]).isoweekday()


@pytest.mark.parametrize("count", [200, 3000])
def test_the_calendar_shows_the_newest_titles(sandbox: SandboxProcess, count: int) -> None:
    sandbox.settings(titles=count)
    items = [item for day in bangumi(sandbox, "/calendar").json for item in day["items"]]
    titles = {title["bangumi_id"]: title for title in sandbox.titles()}
    assert 40 <= len(items) <= 60
    oldest = min(titles[item["id"]]["year"] for item in items)
    newer = [title for title in titles.values() if title["year"] > oldest]
    assert {title["bangumi_id"] for title in newer} <= {item["id"] for item in items}
    for item in items:
        title = titles[item["id"]]
        assert (item["name"], item["name_cn"], item["air_date"]) == (
            title["names"]["ja"], title["names"]["zh"], title["air_date"],
        )  # fmt: skip


def test_images_of_the_calendar_come_in_all_their_forms(sandbox: SandboxProcess, items: list[Any]) -> None:
    large = [item["images"]["large"] if item["images"] else None for item in items]
    assert None in large
    urls = [url for url in large if url]
    assert all(url.startswith(f"{sandbox.url}/bangumi-images/") for url in urls)
    assert {"/r/400/" in url for url in urls} == {True, False}
    pictured = next(item["images"] for item in items if item["images"])
    for url in [*pictured.values(), next(url for url in urls if "/r/400/" in url)]:
        assert ask("GET", url).headers["content-type"] == "image/jpeg"


def test_a_subject_has_its_cover_also_when_the_calendar_had_none(sandbox: SandboxProcess, items: list[Any]) -> None:
    item = next(item for item in items if item["images"] is None)
    subject = bangumi(sandbox, f"/v0/subjects/{item['id']}").json
    [title] = sandbox.titles(after=item["id"] - 1, limit=1)
    assert (subject["id"], subject["name"], subject["date"]) == (item["id"], item["name"], item["air_date"])
    assert subject["images"]["large"] == title["cover_url"]
    assert {"key": "中文名", "value": title["names"]["zh"]} in subject["infobox"]


def test_what_is_not_there_is_told_in_its_own_shape(sandbox: SandboxProcess) -> None:
    answer = bangumi(sandbox, "/v0/subjects/1")
    assert answer.status == 404
    assert answer.json["title"] == "Not Found"
    assert set(answer.json) == {"title", "description", "details", "request_id"}
    assert bangumi(sandbox, "/v0/subjects/x").status == 400
    sandbox.faults("status", status=502, provider="bangumi", route="calendar", times=1)
    assert bangumi(sandbox, "/calendar").json["title"] == "Bad Gateway"


@pytest.mark.parametrize(
    ("user_agent", "is_named"),
    [
        ("", False),
        ("python-requests/2.32.3", False),
        ("Python/3.11 aiohttp/3.12.1", False),
        ("Python-urllib/3.11", False),
        ("python-httpx/0.28.1", False),
        ("curl/8.5.0", False),
        ("curl/8.5.0 (https://example.com)", False),
        ("longtake/0.1", True),
        ("example/longtake (https://example.com/longtake)", True),
        ("longtake/0.1 python-httpx/0.28.1", True),
    ],
)
def test_a_user_agent_has_to_name_an_application(user_agent: str, is_named: bool) -> None:
    assert names_an_application(user_agent) is is_named


@pytest.mark.parametrize("headers", [{}, {"User-Agent": "python-httpx/0.28.1"}])
def test_nobody_in_particular_is_not_let_in(sandbox: SandboxProcess, headers: dict[str, str]) -> None:
    for path in ("/calendar", "/v0/subjects/1"):
        answer = ask("GET", sandbox.bangumi_url + path, headers=headers)
        assert (answer.status, answer.json["title"]) == (403, "Forbidden")
