"""TMDB on the wire: discovered by year, searched by name, limited, and never ahead of what is true."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

import pytest

from tests.sandbox.wire import Answer, ask
from tests.wait import wait_for

if TYPE_CHECKING:
    from tests.sandbox_process import SandboxProcess


def tmdb(sandbox: SandboxProcess, path: str, **query: Any) -> Answer:
    return ask("GET", f"{sandbox.tmdb_url}{path}?{urlencode({'api_key': sandbox.key, **query})}")


def discovered(sandbox: SandboxProcess, year: int) -> list[Any]:
    """All Japanese shows of a year, page by page."""
    query = {"with_original_language": "ja", "first_air_date_year": year}
    first = tmdb(sandbox, "/discover/tv", **query).json
    found: list[Any] = first["results"]
    for page in range(2, first["total_pages"] + 1):
        found += tmdb(sandbox, "/discover/tv", **query, page=page).json["results"]
    assert len(found) == first["total_results"]
    return found


def title_of_kind(sandbox: SandboxProcess, kind: str) -> dict[str, Any]:
    return next(title for title in sandbox.titles() if title["kind"] == kind)


def test_a_year_is_discovered_in_pages_by_popularity(sandbox: SandboxProcess) -> None:
    found = discovered(sandbox, 2001)
    assert len(found) > 40
    assert len({show["id"] for show in found}) == len(found)
    popularity = [show["popularity"] for show in found]
    assert popularity == sorted(popularity, reverse=True)
    assert {show["original_language"] for show in found} == {"ja"}
    assert {show["first_air_date"][:4] for show in found} == {"2001"}
    assert set(found[0]) >= {"id", "name", "original_name", "poster_path"}
    beyond = tmdb(sandbox, "/discover/tv", first_air_date_year=2001, page=400).json
    assert (beyond["page"], beyond["results"]) == (400, [])


@pytest.mark.parametrize("page", ["0", "501", "x", "-1", "99999999999999999999"])
def test_a_page_that_cannot_be_is_refused(sandbox: SandboxProcess, page: str) -> None:
    answer = tmdb(sandbox, "/discover/tv", page=page)
    assert (answer.status, answer.json["status_code"]) == (400, 22)


def test_what_is_exact_is_discovered_under_its_own_name(sandbox: SandboxProcess) -> None:
    title = title_of_kind(sandbox, "exact")
    same = [show for show in discovered(sandbox, title["year"]) if show["original_name"] == title["names"]["ja"]]
    assert [show["id"] for show in same] == [title["tmdb_id"]]


def test_what_is_of_another_year_is_found_there(sandbox: SandboxProcess) -> None:
    titles = [title for title in sandbox.titles() if title["kind"] == "year"]
    years = set()
    for title in titles:
        [show] = tmdb(sandbox, "/search/tv", query=title["names"]["ja"]).json["results"]
        assert (show["id"], show["original_name"]) == (title["tmdb_id"], title["names"]["ja"])
        years.add(int(show["first_air_date"][:4]) - title["year"])
        of_year = tmdb(sandbox, "/search/tv", query=title["names"]["ja"], first_air_date_year=title["year"]).json
        assert of_year["total_results"] == 0
    assert years == {-1, 1}


def test_an_alias_is_found_by_search_only(sandbox: SandboxProcess) -> None:
    for title in [one for one in sandbox.titles() if one["kind"] == "alias"]:
        query = {"query": title["names"]["ja"], "year": title["year"]}
        [show] = tmdb(sandbox, "/search/tv", **query).json["results"]
        assert show["id"] == title["tmdb_id"]
        assert show["original_name"] != title["names"]["ja"]
        details = tmdb(sandbox, f"/tv/{show['id']}", append_to_response="alternative_titles").json
        assert [one["title"] for one in details["alternative_titles"]["results"]] == [title["names"]["ja"]]


def test_what_is_ambiguous_has_two_shows_and_what_is_absent_none(sandbox: SandboxProcess) -> None:
    title = title_of_kind(sandbox, "ambiguous")
    query = {"query": title["names"]["ja"], "first_air_date_year": title["year"]}
    shows = tmdb(sandbox, "/search/tv", **query).json["results"]
    assert {show["original_name"] for show in shows} == {title["names"]["ja"]}
    assert sorted(show["id"] for show in shows) == title["tmdb_ids"]
    assert title["tmdb_id"] is None
    absent = title_of_kind(sandbox, "absent")
    found = [tmdb(sandbox, "/search/tv", query=name).json for name in absent["names"].values()]
    assert [(one["total_results"], one["total_pages"], one["results"]) for one in found] == [(0, 1, [])] * 3


def test_a_search_finds_translations_parts_and_other_cases(sandbox: SandboxProcess) -> None:
    title = title_of_kind(sandbox, "exact")
    english = title["names"]["en"]
    for query in (english, english.upper(), f" {english.lower()} ", title["names"]["zh"], title["names"]["ja"][:-1]):
        found = [show["id"] for show in tmdb(sandbox, "/search/tv", query=query).json["results"]]
        assert title["tmdb_id"] in found, query
    assert tmdb(sandbox, "/search/tv").json["results"] == []


def test_a_show_is_told_in_the_language_asked_for(sandbox: SandboxProcess) -> None:
    title = title_of_kind(sandbox, "exact")
    path = f"/tv/{title['tmdb_id']}"
    names = [tmdb(sandbox, path, **query).json["name"] for query in ({}, {"language": "zh-CN"}, {"language": "ja"})]
    assert names == [title["names"]["en"], title["names"]["zh"], title["names"]["ja"]]


def test_a_show_tells_its_translations_if_it_is_asked_for_them(sandbox: SandboxProcess) -> None:
    title = title_of_kind(sandbox, "exact")
    path = f"/tv/{title['tmdb_id']}"
    assert not {"alternative_titles", "translations"} & set(tmdb(sandbox, path).json)
    told = tmdb(sandbox, path, append_to_response="alternative_titles,translations").json
    names = {one["iso_639_1"]: one["data"]["name"] for one in told["translations"]["translations"]}
    assert names == {"en": title["names"]["en"], "zh": title["names"]["zh"]}
    assert told["alternative_titles"] == {"results": []}


def test_what_is_not_there_and_who_has_no_key_is_told_in_its_own_codes(sandbox: SandboxProcess) -> None:
    for path in ("/tv/1", "/tv/x"):
        answer = tmdb(sandbox, path)
        assert (answer.status, answer.json["success"], answer.json["status_code"]) == (404, False, 34)
    for key in ("", "wrong"):
        answer = tmdb(sandbox, "/discover/tv", api_key=key)
        assert (answer.status, answer.json["status_code"]) == (401, 7)
    with_token = ask("GET", f"{sandbox.tmdb_url}/discover/tv", headers={"Authorization": f"Bearer {sandbox.key}"})
    assert with_token.status == 200


def test_too_many_calls_are_told_when_to_come_again(sandbox: SandboxProcess) -> None:
    # Keys are counted one by one: those that no other test has used begin at nothing.
    sandbox.settings(tmdb_limit="2/60", keys=["limited", "unlimited"])
    answers = [tmdb(sandbox, path, api_key="limited") for path in ("/discover/tv", "/search/tv", "/discover/tv")]
    assert [answer.status for answer in answers] == [200, 200, 429]
    assert (answers[2].json["success"], answers[2].json["status_code"]) == (False, 25)
    assert 55 <= int(answers[2].headers["retry-after"]) <= 60
    assert tmdb(sandbox, "/discover/tv", api_key="unlimited").status == 200
    sandbox.settings(tmdb_limit="2/0.1")
    wait_for(lambda: tmdb(sandbox, "/discover/tv", api_key="limited").status == 200, "the end of the window")


@pytest.mark.parametrize(("status", "code"), [(401, 7), (404, 34), (429, 25), (500, 11), (503, 9)])
def test_a_status_comes_with_the_code_that_belongs_to_it(sandbox: SandboxProcess, status: int, code: int) -> None:
    sandbox.faults("status", status=status, provider="tmdb", route="search", query_contains="query=一", times=1)
    assert tmdb(sandbox, "/search/tv", query="二").status == 200
    answer = tmdb(sandbox, "/search/tv", query="一")
    assert (answer.status, answer.json["status_code"]) == (status, code)
    assert tmdb(sandbox, "/search/tv", query="一").status == 200


def test_a_search_is_logged_with_its_query_but_without_the_key(sandbox: SandboxProcess) -> None:
    tmdb(sandbox, "/search/tv", query="星の海", page=2)
    [call] = sandbox.calls(provider="tmdb", route="search", query="星の海")
    assert (call["path"], call["query"]) == ("/tmdb/3/search/tv", "query=星の海&page=2")
    assert call["monotonic"] < call["monotonic_end"]
    assert sandbox.key not in str(sandbox.calls())


def test_calls_that_overlap_can_be_told_from_those_that_do_not(sandbox: SandboxProcess) -> None:
    sandbox.faults("delay", delay=0.1, route="details", times=1)
    for _ in range(2):
        tmdb(sandbox, "/tv/1")
    first, second = sandbox.calls(route="details")
    assert first["monotonic_end"] - first["monotonic"] >= 0.1
    assert second["monotonic"] >= first["monotonic_end"]
