"""Which show of TMDB a title is: what is taken, and what is left to a person."""

from __future__ import annotations

from dataclasses import asdict, replace

import pytest
from hypothesis import given
from hypothesis import strategies as some

from longtake.adapters.providers.tmdb import Show
from longtake.capabilities.catalogue.match_score import (
    CANDIDATES_MOST,
    MARGIN,
    WORTH_A_LOOK,
    accepted,
    fold,
    has_one_of,
    only_similar,
    rank,
    worth_a_look,
)

NAME = "放課後の幼馴染奇譚"


def show(number: int, original: str = NAME, year: int | None = 2009, **more: object) -> Show:
    day = "" if year is None else f"{year}-04-01"
    return replace(Show(number, "Some Other Words", original, "ja", day, 5.0), **more)  # type: ignore[arg-type]


def taken(*shows: Show, names: tuple[str, ...] = (NAME,), year: int | None = 2009) -> int | None:
    best = accepted(rank(names, year, shows))
    return None if best is None else best.tmdb_id


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("けいおん!", "けいおん\uff01"), ("ABC", "\uff41\uff42\uff43"), ("K-ON!", "k-on!"), ("A  B", "ab"),
        ("ハ", "\uff8a"), ("Straße", "STRASSE"), ("a\u3000b", "a b"),
    ],
)  # fmt: skip
def test_width_case_and_spaces_do_not_tell_names_apart(one: str, other: str) -> None:
    assert fold(one) == fold(other)


@pytest.mark.parametrize(("one", "other"), [("けいおん!", "けいおん!!"), ("ハ", "バ"), ("か", "カ"), ("1", "2")])
def test_other_signs_tell_names_apart(one: str, other: str) -> None:
    assert fold(one) != fold(other)


def test_nothing_found_is_nothing_taken() -> None:
    assert taken() is None


def test_the_same_name_in_the_same_year_is_taken() -> None:
    assert taken(show(1)) == 1
    assert taken(show(1), show(2, "全く違う名前の作品", 1990)) == 1


def test_the_translated_name_counts_as_well() -> None:
    assert taken(show(1, "別の名前", name="Fox Story"), names=("狐物語", "Fox  story")) == 1


def test_two_of_the_same_name_and_year_are_never_taken() -> None:
    assert taken(show(1), show(2)) is None
    assert taken(show(1, popularity=900.0), show(2, popularity=0.1)) is None


def test_the_same_name_a_year_off_is_taken_and_one_far_off_is_not() -> None:
    assert taken(show(1, year=2010)) == taken(show(1, year=2008)) == 1
    assert taken(show(1, year=2011)) is None
    assert taken(show(1, year=1979)) is None


def test_of_two_years_beside_ours_neither_is_taken() -> None:
    assert taken(show(1, year=2008), show(2, year=2010)) is None


def test_the_right_year_wins_over_the_same_name_in_a_far_one() -> None:
    assert taken(show(1), show(2, year=1979)) == 1


def test_the_same_name_is_taken_where_either_side_knows_no_year() -> None:
    assert taken(show(1), year=None) == 1
    assert taken(show(1, year=None)) == 1


def test_the_same_name_in_another_language_and_no_year_is_not_enough() -> None:
    assert taken(show(1, language="ko"), year=None) is None


@pytest.mark.parametrize("sequel", [NAME + "2", NAME + " 第二期", "続・" + NAME, "放課後の幼馴染綺譚"])
def test_a_sequel_with_a_similar_name_in_the_same_year_is_never_taken(sequel: str) -> None:
    assert taken(show(1, sequel)) is None
    assert taken(show(1, sequel, popularity=900.0), show(2, "無関係", 1990, popularity=1.0)) is None
    assert worth_a_look(rank((NAME,), 2009, [show(1, sequel)]))


def test_a_hit_by_another_name_is_taken_only_if_year_and_language_fit() -> None:
    other = "FOX -THE ANIMATION-"
    assert taken(show(1, other)) == 1
    assert taken(show(1, other, language="zh")) is None
    for year in (2008, 2010, 1990, None):
        assert taken(show(1, other, year)) is None
    assert taken(show(1, other), year=None) is None


def test_a_hit_none_of_whose_names_is_ours_counts_as_one_that_is_similar() -> None:
    [unseen] = rank((NAME,), 2009, [show(1, "FOX -THE ANIMATION-")])
    [similar] = rank((NAME,), 2009, [show(1, NAME + "2")])
    assert only_similar(unseen).score == similar.score
    assert accepted([only_similar(unseen)]) is None
    assert worth_a_look([only_similar(unseen)])


def test_a_show_has_our_name_only_if_all_of_it_is_the_same() -> None:
    assert has_one_of(["狐", "Fox Story"], ["", "fox  STORY"])
    for other in (NAME + "2", NAME[:-1], ""):
        assert not has_one_of([NAME], [other])
    assert not has_one_of([NAME], [])


def test_two_hits_by_other_names_are_not_taken() -> None:
    assert taken(show(1, "FOX -THE ANIMATION-"), show(2, "WOLF: ORIGINS")) is None


def test_a_person_is_shown_the_best_and_only_so_many() -> None:
    found = worth_a_look(rank((NAME,), 2009, [show(number) for number in range(1, 20)]))
    assert len(found) == CANDIDATES_MOST
    assert worth_a_look(rank((NAME,), 2009, [show(1, "全く違う名前の作品", 1990, language="ko")])) == []


def test_a_candidate_says_what_a_person_needs_to_choose() -> None:
    [found] = rank((NAME,), 2009, [show(7)])
    told = asdict(found)
    assert set(told) == {"tmdb_id", "name", "original_name", "first_air_date", "score"}
    assert (told["tmdb_id"], told["original_name"], told["first_air_date"]) == (7, NAME, "2009-04-01")


SHOWS = some.lists(
    some.builds(
        Show,
        some.integers(1, 1_000),
        some.sampled_from(["Fox Story", "fox story", "Wolf", ""]),
        some.sampled_from([NAME, NAME + "2", "全く違う名前の作品", "FOX -THE ANIMATION-", ""]),
        some.sampled_from(["ja", "zh", ""]),
        some.sampled_from(["2009-04-01", "2010-01-01", "2008-12-31", "1990-01-01", "", "unknown"]),
        some.floats(0, 5_000),
    ),
    max_size=6,
    unique_by=lambda one: one.id,
)
YEARS = some.sampled_from([None, 2008, 2009, 2010])
NAMES = some.sampled_from([(NAME,), (NAME, "Fox Story"), ("狐", "fox  STORY")])


@given(NAMES, YEARS, SHOWS, some.randoms())
def test_the_order_in_which_shows_come_does_not_matter(
    names: tuple[str, ...], year: int | None, shows: list[Show], dice: object
) -> None:
    shuffled = list(shows)
    dice.shuffle(shuffled)  # type: ignore[attr-defined]
    assert rank(names, year, shuffled) == rank(names, year, shows)


@given(NAMES, YEARS, SHOWS)
def test_nothing_is_taken_that_is_not_clearly_ahead_of_the_next(
    names: tuple[str, ...], year: int | None, shows: list[Show]
) -> None:
    ranked = rank(names, year, shows)
    assert [one.score for one in ranked] == sorted((one.score for one in ranked), reverse=True)
    best = accepted(ranked)
    if len(ranked) > 1 and ranked[0].score - ranked[1].score < MARGIN:
        assert best is None
    assert best in (None, *ranked[:1])
    assert all(one.score >= WORTH_A_LOOK for one in worth_a_look(ranked))


@given(NAMES, YEARS, SHOWS, some.lists(some.floats(0, 5_000), min_size=6, max_size=6))
def test_how_well_known_shows_are_never_decides(
    names: tuple[str, ...], year: int | None, shows: list[Show], known: list[float]
) -> None:
    others = [replace(one, popularity=known[place]) for place, one in enumerate(shows)]
    assert taken(*shows, names=names, year=year) == taken(*others, names=names, year=year)
