"""What a search takes: a show that has our name, seen and not supposed, and is the only one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from longtake.capabilities.catalogue.tables import SEARCH, SYNC, SYNC_IDS, YEAR
from tests.catalogue.stage import sought

if TYPE_CHECKING:
    from tests.catalogue.stage import CatalogueStudio


@pytest.mark.parametrize("part", [slice(None, -1), slice(1, None), slice(None, -2)])
async def test_a_show_that_is_found_by_a_part_of_its_other_name_is_left_to_a_person(
    studio: CatalogueStudio, part: slice
) -> None:
    """Nothing that a search answers tells it from one that was found by the whole name."""
    different = studio.truth("alias", 2)
    title_id = await studio.bring(**sought(different, title_japanese=different["names"]["ja"][part]))
    await studio.work()
    title = await studio.show(title_id)
    assert (title["tmdb_id"], title["tmdb_state"]) == (None, "in_doubt")
    assert [one["tmdb_id"] for one in title["tmdb_candidates"]] == [different["tmdb_id"]]


async def test_a_show_that_is_found_by_its_translated_name_is_taken(studio: CatalogueStudio) -> None:
    exact = studio.truth("exact")
    title_id = await studio.bring(title_japanese="誰も知らない", title_chinese=exact["names"]["zh"], year=exact["year"])
    await studio.work()
    title = await studio.show(title_id)
    assert (title["tmdb_id"], title["tmdb_found_by"]) == (exact["tmdb_id"], "search")


async def test_each_show_whose_names_are_looked_at_has_a_permit_and_is_asked_for_once(studio: CatalogueStudio) -> None:
    different = studio.truth("alias", 2)
    part = different["names"]["ja"][:-1]
    # Three names that all find the same show, and none is its own.
    names = {"title_japanese": part, "title_chinese": part[1:], "title_english": part[:-1]}
    title_id = await studio.bring(**names, year=different["year"])
    ran = await studio.work()
    assert (await studio.show(title_id))["tmdb_state"] == "in_doubt"
    assert len(studio.asked("details")) == 1
    assert ran.count(SEARCH) == len(studio.asked("search", "details")) == 4


async def test_a_show_whose_names_cannot_be_had_is_waited_for(studio: CatalogueStudio) -> None:
    studio.sandbox.faults("status", status=503, route="details", times=2)
    different = studio.truth("alias", 2)
    title_id = await studio.bring(**sought(different))
    await studio.work(rounds=120)
    title = await studio.show(title_id)
    assert (title["tmdb_id"], title["error"]) == (different["tmdb_id"], None)


@pytest.mark.parametrize(
    "told",
    [
        {"alternative_titles": None, "translations": 7},
        {"alternative_titles": {"results": 7}, "translations": {"translations": {}}},
        {"alternative_titles": {"results": [7, {}, {"title": 7}]}, "translations": {"translations": [7, {"data": 7}]}},
        {"alternative_titles": {"results": [{"title": ""}]}, "translations": {"translations": [{"data": {}}]}},
    ],
)
async def test_a_show_that_tells_no_other_names_is_left_to_a_person(
    studio: CatalogueStudio, told: dict[str, Any]
) -> None:
    studio.sandbox.faults("replace", route="details", replace=told)
    different = studio.truth("alias", 2)
    title_id = await studio.bring(**sought(different))
    await studio.work()
    title = await studio.show(title_id)
    assert (title["tmdb_id"], title["tmdb_state"], title["error"]) == (None, "in_doubt", None)


async def test_a_show_that_has_gone_meanwhile_is_not_taken(studio: CatalogueStudio) -> None:
    studio.sandbox.faults("status", status=404, route="details")
    title_id = await studio.bring(**sought(studio.truth("alias", 2)))
    await studio.work()
    assert (await studio.show(title_id))["tmdb_id"] is None


# -- several names -----------------------------------------------------------------------------------------------


def hit(number: int, name: str, year: int) -> dict[str, Any]:
    """Return a show as a search answers with it."""
    day = f"{year}-04-01"
    return {
        "id": number,
        "name": name,
        "original_name": f"作品{number}",
        "original_language": "ja",
        "first_air_date": day,
    }


async def test_doubt_under_one_name_is_not_forgotten_under_the_next(studio: CatalogueStudio) -> None:
    """The second name alone would find one show, and that has this name; the first has found two that fit as well."""
    different = studio.truth("alias", 2)
    names = {"title_japanese": "誰も知らない", "title_chinese": different["names"]["ja"], "title_english": "Fox Story"}
    year = different["year"]
    two = {"results": [hit(1, "Fox Story", year), hit(2, "fox story", year)], "total_pages": 1}
    studio.sandbox.faults("replace", route="search", query_contains="query=誰", replace=two)
    title_id = await studio.bring(**names, year=year)
    await studio.work()
    title = await studio.show(title_id)
    assert (title["tmdb_id"], title["tmdb_state"]) == (None, "in_doubt")
    assert [one["tmdb_id"] for one in title["tmdb_candidates"]] == [1, 2, different["tmdb_id"]]
    assert len(studio.asked("search")) == 3
    assert studio.asked("details") == [], "whatever it is called, it is not alone"


async def test_what_fits_better_under_the_next_name_is_taken(studio: CatalogueStudio) -> None:
    exact = studio.truth("exact")
    names = {"title_japanese": "誰も知らない", "title_english": exact["names"]["en"]}
    far = {"results": [hit(1, "誰も知らない", exact["year"] + 9)], "total_pages": 1}
    studio.sandbox.faults("replace", route="search", query_contains="query=誰", replace=far)
    title_id = await studio.bring(**names, year=exact["year"])
    await studio.work()
    title = await studio.show(title_id)
    assert (title["tmdb_id"], title["tmdb_candidates"]) == (exact["tmdb_id"], [])


async def test_a_title_that_gets_other_names_while_it_is_searched_for_is_searched_for_anew(
    studio: CatalogueStudio,
) -> None:
    """What was found and how far the search was belong to the names of before."""
    exact, different = studio.truth("exact"), studio.truth("alias", 2)
    title_id = await studio.bring(title_japanese=different["names"]["ja"][:-1], year=different["year"])
    for _ in range(20):
        await studio.run_only(SYNC, SYNC_IDS, YEAR)
        studio.clock.advance(1)
    await studio.run_only(SEARCH)
    assert len(studio.asked("search")) == 1
    change = "UPDATE titles SET title_japanese = :name, year = :year"
    await studio.change(change, name=exact["names"]["ja"], year=exact["year"])
    await studio.work()
    assert (await studio.show(title_id))["tmdb_id"] == exact["tmdb_id"]
    assert studio.asked("details") == []
