"""The catalogue over HTTP: who may what, what is refused in which words, and pages."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from longtake.capabilities.catalogue.tables import CALENDAR, SYNC
from tests.catalogue.service import Service
from tests.catalogue.stage import CatalogueStudio, given

if TYPE_CHECKING:
    from tests.accounts.stage import Answer

TITLES = "/v1/catalogue/titles"
NOTHING = "0199c1f2-7a40-7cc3-98c4-dc0c0c07398f"
#: Every route, with a body that it takes; `ID` is a title's.
READING = [("GET", TITLES, None), ("GET", f"{TITLES}/ID", None), ("GET", "/v1/catalogue/status", None)]
CHANGING: list[tuple[str, str, Any]] = [
    ("POST", TITLES, {"title_english": "Fox"}),
    ("POST", f"{TITLES}/import", {"titles": [{"title_english": "Fox"}]}),
    ("POST", f"{TITLES}/ID/match", {"tmdb_id": None}),
    ("POST", "/v1/catalogue/posters", {"downloads": [{"title_id": NOTHING, "url": "https://example.com/x.jpg"}]}),
    ("POST", "/v1/catalogue/sync", None),
    ("POST", "/v1/catalogue/calendar", None),
    ("POST", "/v1/catalogue/shutdown", None),
    ("POST", "/v1/catalogue/start", None),
    ("DELETE", f"{TITLES}/ID", None),
]


@pytest.fixture
def service(studio: CatalogueStudio) -> Service:
    return Service(studio)


def assert_problem(answer: Answer, status: int, code: str) -> None:
    assert (answer.status, answer.json.get("code")) == (status, code), answer.body
    assert answer.headers["content-type"] == "application/problem+json"
    assert answer.json["detail"].endswith(".")


async def test_whoever_may_read_sees_titles_and_changes_nothing(studio: CatalogueStudio, service: Service) -> None:
    title_id = await studio.bring(title_english="a")
    before = [await studio.sql("SELECT * FROM titles"), await studio.jobs()]
    for method, path, body in READING:
        assert (await service.ask(method, path.replace("ID", title_id), body, role="user")).status == 200
    for method, path, body in CHANGING:
        answer = await service.ask(method, path.replace("ID", title_id), body, role="user")
        assert_problem(answer, 403, "FORBIDDEN")
    assert [await studio.sql("SELECT * FROM titles"), await studio.jobs()] == before
    assert await studio.catalogue.is_running()


async def test_without_a_token_nothing_is_told(studio: CatalogueStudio, service: Service) -> None:
    title_id = await studio.bring(title_english="a")
    for method, path, body in READING + CHANGING:
        answer = await service.ask(method, path.replace("ID", title_id), body, role=None)
        assert answer.status == 401, (method, path)


async def test_operators_may_do_all_of_it(studio: CatalogueStudio, service: Service) -> None:
    title_id = await studio.bring(title_english="a")
    for method, path, body in READING + CHANGING:
        answer = await service.ask(method, path.replace("ID", title_id), body)
        assert answer.status < 300, (method, path, answer.body)


async def test_a_title_is_created_with_201_and_there_already_with_200(
    studio: CatalogueStudio, service: Service
) -> None:
    body = given(studio.truth("exact"))
    first = await service.ask("POST", TITLES, body)
    assert (first.status, first.json["bangumi_id"], first.json["poster_state"]) == (201, body["bangumi_id"], "remote")
    again = await service.ask("POST", TITLES, body)
    assert (again.status, again.json) == (200, first.json)
    shown = await service.ask("GET", f"{TITLES}/{first.json['id']}")
    assert shown.json == first.json


WRONG_TITLES: list[tuple[Any, str]] = [
    ({}, "TITLE_INVALID"),
    ({"year": 2009}, "TITLE_INVALID"),
    ({"title_english": "a", "year": 1}, "TITLE_INVALID"),
    ({"bangumi_id": -1}, "TITLE_INVALID"),
    ({"bangumi_id": 2**80}, "TITLE_INVALID"),
    ({"title_english": "a\0"}, "TEXT_INVALID"),
    ({"title_english": "x" * 400}, "TEXT_INVALID"),
    ({"title_english": "x" * 1_001}, "REQUEST_INVALID"),
    ({"title_english": "a", "poster": "file:///etc/passwd"}, "POSTER_PATH_INVALID"),
    ({"title_english": "a", "poster": "/posters/../x"}, "POSTER_PATH_INVALID"),
    ({"title_english": "a", "unknown": 1}, "REQUEST_INVALID"),
    ({"bangumi_id": "x"}, "REQUEST_INVALID"),
]


async def test_a_title_that_is_wrong_is_refused(studio: CatalogueStudio, service: Service) -> None:
    for body, code in WRONG_TITLES:
        assert_problem(await service.ask("POST", TITLES, body), 422, code)
    assert_problem(await service.ask("POST", TITLES, []), 400, "JSON_INVALID")
    assert await studio.sql("SELECT count(*) FROM titles") == [(0,)]


async def test_an_import_tells_of_each_title_what_became_of_it(studio: CatalogueStudio, service: Service) -> None:
    wanted = [{"bangumi_id": 1, "title_english": "a"}, {"year": 3}, "x", {"bangumi_id": 1, "title_english": "b"}]
    refused = await service.ask("POST", f"{TITLES}/import", {"titles": wanted})
    assert_problem(refused, 422, "REQUEST_INVALID")
    answer = await service.ask("POST", f"{TITLES}/import", {"titles": [*wanted[:2], {"bangumi_id": "2"}]})
    assert [one["result"] for one in answer.json["items"]] == ["created", "refused", "created"]
    assert answer.json["items"][1]["refused"]["code"] == "TITLE_INVALID"
    assert answer.json["items"][1]["id"] is None
    too_many = {"titles": [{"bangumi_id": number} for number in range(1, 502)]}
    assert_problem(await service.ask("POST", f"{TITLES}/import", too_many), 422, "REQUEST_INVALID")
    assert await studio.sql("SELECT count(*) FROM titles") == [(2,)]


async def test_pages_follow_each_other_to_the_end(studio: CatalogueStudio, service: Service) -> None:
    await studio.catalogue.add_many([{"bangumi_id": number} for number in range(1, 6)])
    seen: list[int] = []
    page: dict[str, Any] = {}
    place = ""
    for _ in range(3):
        page = (await service.ask("GET", f"{TITLES}?limit=2{place}")).json
        seen += [one["bangumi_id"] for one in page["titles"]]
        place = f"&before={page['next']}"
    assert page["next"] is None
    assert sorted(seen) == [1, 2, 3, 4, 5]
    assert len((await service.ask("GET", f"{TITLES}?bangumi_id=3")).json["titles"]) == 1


WRONG_FILTERS = [
    "limit=0", "limit=201", "limit=x", "before=x", "poster=x", "tmdb=x", "in_trouble=x", "bangumi_id=0", "year=-1",
    "year=10000", f"bangumi_id={2**60}",
]  # fmt: skip


async def test_a_filter_that_cannot_be_is_refused(service: Service) -> None:
    for query in WRONG_FILTERS:
        assert_problem(await service.ask("GET", f"{TITLES}?{query}"), 422, "REQUEST_INVALID")


async def test_a_year_that_no_title_has_finds_none(service: Service) -> None:
    assert (await service.ask("GET", f"{TITLES}?year=9999")).json == {"titles": [], "next": None}


OF_ONE_TITLE: list[tuple[str, str, Any]] = [
    ("GET", "", None),
    ("DELETE", "", None),
    ("POST", "/match", {"tmdb_id": None}),
    ("POST", "/match", {"automatic": True}),
]


async def test_a_title_that_is_not_there_is_not_found(service: Service) -> None:
    for method, path, body in OF_ONE_TITLE:
        assert_problem(await service.ask(method, f"{TITLES}/{NOTHING}{path}", body), 404, "NOT_FOUND")
        assert_problem(await service.ask(method, f"{TITLES}/x{path}", body), 422, "REQUEST_INVALID")


async def test_a_person_chooses_a_show_by_request(studio: CatalogueStudio, service: Service) -> None:
    exact = studio.truth("exact")
    title_id = await studio.bring(title_japanese="a")
    match = f"{TITLES}/{title_id}/match"
    chosen = await service.ask("POST", match, {"tmdb_id": exact["tmdb_id"]})
    assert (chosen.json["tmdb_id"], chosen.json["tmdb_found_by"]) == (exact["tmdb_id"], "person")
    assert (await service.ask("POST", match, {"tmdb_id": None})).json["tmdb_state"] == "none"
    assert (await service.ask("POST", match, {"automatic": True})).json["tmdb_state"] == "waiting"
    assert_problem(await service.ask("POST", match, {"tmdb_id": 999_999_999}), 422, "TITLE_INVALID")
    for wrong in ({"tmdb_id": 0}, {"tmdb_id": 2**60}, {"automatic": 1}, {"other": 1}):
        assert_problem(await service.ask("POST", match, wrong), 422, "REQUEST_INVALID")


async def test_work_is_begun_by_request_and_named_by_its_job(studio: CatalogueStudio, service: Service) -> None:
    sync = await service.ask("POST", "/v1/catalogue/sync")
    again = await service.ask("POST", "/v1/catalogue/sync")
    calendar = await service.ask("POST", "/v1/catalogue/calendar")
    assert (sync.status, calendar.status) == (202, 202)
    assert sync.json == again.json, "one that waits is as good"
    found = dict(await studio.sql("SELECT id, kind FROM jobs"))
    assert {str(one): kind for one, kind in found.items()} == {
        sync.json["job_id"]: SYNC,
        calendar.json["job_id"]: CALENDAR,
    }


async def test_posters_are_asked_for_by_request(studio: CatalogueStudio, service: Service) -> None:
    title_id = await studio.bring(title_english="a")
    cover = studio.truth("exact")["cover_url"]
    wanted = [
        {"title_id": title_id, "url": cover},
        {"title_id": NOTHING, "url": cover},
        {"title_id": title_id, "url": "x"},
        {"title_id": title_id, "url": " "},
    ]
    answer = await service.ask("POST", "/v1/catalogue/posters", {"downloads": wanted})
    assert [one["queued"] for one in answer.json["items"]] == [True, False, False, False]
    codes = [(one["refused"] or {}).get("code") for one in answer.json["items"]]
    assert codes == [None, "NOT_FOUND", "POSTER_PATH_INVALID", "TITLE_INVALID"]
    bad: list[dict[str, Any]] = [{"downloads": []}, {"downloads": [{"title_id": "x", "url": cover}]}, {}]
    for wrong in bad:
        assert_problem(await service.ask("POST", "/v1/catalogue/posters", wrong), 422, "REQUEST_INVALID")
    await studio.work()
    assert (await service.ask("GET", f"{TITLES}/{title_id}")).json["poster_state"] == "stored"


async def test_the_catalogue_is_shut_down_and_started_by_request(studio: CatalogueStudio, service: Service) -> None:
    """M6: safe to repeat, resumed after a restart, stopped in order."""
    answer = await service.ask("POST", "/v1/catalogue/shutdown")
    assert answer.json == {"at_rest": True}
    assert (await service.ask("GET", "/v1/catalogue/status")).json["running"] is False
    assert (await service.ask("POST", "/v1/catalogue/start")).status == 204
    assert (await service.ask("GET", "/v1/catalogue/status")).json["running"] is True
    assert await studio.catalogue.is_running()


async def test_a_title_is_deleted_by_request(studio: CatalogueStudio, service: Service) -> None:
    title_id = await studio.bring(title_english="a")
    assert (await service.ask("DELETE", f"{TITLES}/{title_id}")).status == 204
    assert_problem(await service.ask("GET", f"{TITLES}/{title_id}"), 404, "NOT_FOUND")
