"""The catalogue: the same for the same seed, in the promised shares, and quick to look things up in."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import pytest

from longtake_sandbox.titles import (
    COUNT,
    FIRST_YEAR,
    LAST_YEAR,
    Catalogue,
    Shows,
    make_catalogue,
    names,
    normalised,
)
from tests.sandbox.wire import ask
from tests.sandbox_process import running_sandbox

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tests.sandbox_process import SandboxProcess


@pytest.fixture(scope="module")
def large() -> Catalogue:
    return make_catalogue(20_000, 0)


def test_a_seed_decides_and_a_larger_catalogue_begins_with_the_smaller_one() -> None:
    small = make_catalogue(200, 5)
    assert make_catalogue(200, 5).titles == small.titles
    assert make_catalogue(300, 5).titles[:200] == small.titles
    assert make_catalogue(200, 6).titles[0].names != small.titles[0].names


def test_names_ids_and_files_are_never_the_same(large: Catalogue) -> None:
    titles = large.titles
    assert len({title.bangumi_id for title in titles}) == len({title.cover_file for title in titles}) == 20_000
    every = [names(number, 3) for number in range(COUNT)]
    assert [len(set(of_language)) for of_language in zip(*every, strict=True)] == [COUNT] * 3
    shows = large.shows.discover()
    assert len({show.id for show in shows}) == len(shows)


def test_kinds_come_in_their_shares_in_every_year(large: Catalogue) -> None:
    kinds = Counter(title.kind for title in large.titles)
    assert kinds == {"exact": 14_000, "year": 2000, "alias": 2000, "ambiguous": 1000, "absent": 1000}
    years = {title.air_date.year for title in large.titles}
    assert years == set(range(FIRST_YEAR, LAST_YEAR + 1))
    assert len({(title.kind, title.air_date.year) for title in large.titles}) == len(kinds) * len(years)


def test_a_whole_name_finds_its_own_shows_and_no_others(large: Catalogue) -> None:
    for title in large.titles[::37]:
        for name in title.names:
            assert {show.id for show in large.shows.search(name)} == set(title.tmdb_ids)


def test_a_search_for_a_name_looks_at_its_own_shows_only(large: Catalogue, monkeypatch: pytest.MonkeyPatch) -> None:
    """Going through all names costs a millisecond each time; it is done for what is nobody's name, and once."""
    gone_through: list[str] = []
    names_with = Shows._names_with

    def noted(shows: Shows, part: str) -> Iterable[str]:
        gone_through.append(part)
        return names_with(shows, part)

    monkeypatch.setattr(Shows, "_names_with", noted)
    for title in large.titles[:10_000]:
        large.shows.search(title.names.ja, str(title.air_date.year))
        large.shows.search(title.names.ja)
    assert len(gone_through) == len(set(gone_through))
    assert {normalised(title.names.ja) for title in large.titles[:10_000] if title.kind != "absent"}.isdisjoint(
        gone_through
    )


def test_a_part_of_names_finds_each_show_once_by_popularity(large: Catalogue) -> None:
    found = large.shows.search("azure")
    assert len(found) == len({show.id for show in found}) > 100
    assert all("Azure" in show.names.en for show in found)
    assert [show.popularity for show in found] == sorted((show.popularity for show in found), reverse=True)
    assert large.shows.search("story azure") == []


def test_the_truth_is_told_in_pages(sandbox: SandboxProcess) -> None:
    whole = sandbox.titles()
    assert len(whole) == 200
    first = sandbox.titles(limit=150)
    assert first + sandbox.titles(after=first[-1]["bangumi_id"], limit=150) == whole
    assert set(whole[0]) >= {"bangumi_id", "names", "year", "cover_url", "kind", "tmdb_id"}
    assert ask("GET", f"{sandbox.url}/_titles?after=x").status == 400


def test_the_number_of_titles_can_be_changed(sandbox: SandboxProcess) -> None:
    before = sandbox.titles()
    assert sandbox.settings(titles=1000)["titles"] == 1000
    after = sandbox.titles()
    assert (len(after), after[:200]) == (1000, before)
    assert ask("POST", f"{sandbox.url}/_settings", {"titles": 20_001}).status == 400


def test_titles_seed_and_limit_are_options() -> None:
    with running_sandbox(titles=30, seed=4, tmdb_limit="7/2") as other:
        assert [title["names"]["ja"] for title in other.titles()] == [names(place, 4).ja for place in range(30)]
        assert other.settings()["tmdb_limit"] == "7/2"
    with running_sandbox() as usual:
        assert (usual.settings()["tmdb_limit"], usual.settings()["titles"]) == ("40/1", 200)
