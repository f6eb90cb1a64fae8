"""Titles as they are brought in: what is kept, and what is refused in which words."""

from __future__ import annotations

from typing import Any

import pytest

from longtake.capabilities.catalogue.errors import InvalidTitle, PosterPathInvalid
from longtake.capabilities.catalogue.new_titles import NewTitle, check_title, merge
from longtake.errors import InvalidText, LongtakeError


def test_a_title_is_taken_as_it_is_given() -> None:
    title = check_title({
        "bangumi_id": 1424, "title_japanese": " けいおん! ", "title_chinese": "轻音少女", "title_english": "K-ON!",
        "year": 2009, "poster": "https://lain.bgm.tv/x.jpg", "tmdb_id": 42253,
    })  # fmt: skip
    assert title == NewTitle(1424, "けいおん!", "轻音少女", "K-ON!", 2009, "https://lain.bgm.tv/x.jpg", 42253)


def test_numbers_may_be_written_as_in_the_cells_of_a_table() -> None:
    title = check_title({"bangumi_id": " 1424 ", "year": "2009", "tmdb_id": "", "title_japanese": "  "})
    assert title == NewTitle(bangumi_id=1424, year=2009)


@pytest.mark.parametrize(
    "given", [{"bangumi_id": 1}, {"title_japanese": "x"}, {"title_chinese": "x"}, {"title_english": "x"}]
)
def test_an_id_or_a_name_in_any_language_is_enough(given: dict[str, Any]) -> None:
    assert check_title(given).identity


def test_the_bangumi_id_is_what_makes_it_the_same_title_and_else_name_and_year() -> None:
    named = {"title_japanese": "けいおん\uff01", "year": 2009}
    assert check_title({"bangumi_id": 7, **named}).identity == check_title({"bangumi_id": 7}).identity
    assert check_title(named).identity == check_title(named | {"title_japanese": "けい おん!"}).identity
    assert check_title(named).identity != check_title(named | {"year": 2010}).identity
    assert check_title(named).identity != check_title({"title_japanese": "けいおん\uff01"}).identity
    assert check_title({"title_chinese": "轻", "title_english": "K"}).identity == "name:轻:"


BAD_NUMBERS = [0, -1, 2**53 + 1, 1.5, True, False, "x", "-1", "1.5", "٣", "1e3", [], {}]


@pytest.mark.parametrize("field", ["bangumi_id", "year", "tmdb_id"])
@pytest.mark.parametrize("value", BAD_NUMBERS, ids=repr)
def test_what_is_no_number_is_refused_by_the_name_of_its_field(field: str, value: Any) -> None:
    with pytest.raises(InvalidTitle) as refused:
        check_title({"title_japanese": "x", field: value})
    assert refused.value.code == "TITLE_INVALID"
    assert field in refused.value.message
    assert refused.value.message.endswith("whole number of 1 or more.")
    assert refused.value.hint


@pytest.mark.parametrize("year", [1, 1887, 2201, 9_999])
def test_a_year_in_which_nothing_was_on_air_is_refused(year: int) -> None:
    with pytest.raises(InvalidTitle, match=f"year is {year}; it must be 1888 to 2200."):
        check_title({"title_japanese": "x", "year": year})


@pytest.mark.parametrize("field", ["title_japanese", "title_chinese", "title_english", "poster"])
@pytest.mark.parametrize("value", [7, True, ["x"], {"a": 1}, b"x"], ids=repr)
def test_a_name_or_poster_that_is_no_text_is_refused(field: str, value: Any) -> None:
    with pytest.raises(InvalidTitle, match=f"{field} must be text."):
        check_title({"bangumi_id": 1, field: value})


@pytest.mark.parametrize("field", ["title_japanese", "title_chinese", "title_english"])
@pytest.mark.parametrize(
    ("value", "said"), [("x" * 301, "has 301 characters; 300 are allowed"), ("a\0b", "U+0000"), ("\ud800x", "U+D800")]
)
def test_a_name_that_cannot_be_kept_is_refused(field: str, value: str, said: str) -> None:
    with pytest.raises(InvalidText) as refused:
        check_title({"bangumi_id": 1, field: value})
    assert refused.value.code == "TEXT_INVALID"
    assert refused.value.message.startswith(field)
    assert said in refused.value.message


@pytest.mark.parametrize("poster", ["/posters/../x", "ftp://example.com/x", "x", "file:///etc/passwd", "https://"])
def test_a_poster_that_is_neither_an_address_nor_ours_is_refused(poster: str) -> None:
    with pytest.raises(PosterPathInvalid) as refused:
        check_title({"bangumi_id": 1, "poster": poster})
    assert refused.value.code == "POSTER_PATH_INVALID"


@pytest.mark.parametrize("given", [{}, {"year": 2009}, {"title_japanese": "  "}, {"poster": "https://a.b/x"}])
def test_a_title_without_id_and_name_is_refused(given: dict[str, Any]) -> None:
    with pytest.raises(LongtakeError, match="neither a Bangumi id nor a name"):
        check_title(given)


@pytest.mark.parametrize("value", ["1" * 5_000, "9" * 17, 2**53 + 1, 0, -3, "12a", "\uff11\uff12", True, 1.5])
def test_a_number_that_is_none_is_refused_by_its_field(value: Any) -> None:
    with pytest.raises(InvalidTitle, match=r"^bangumi_id is "):
        check_title({"bangumi_id": value, "title_english": "A fox"})


@pytest.mark.parametrize("value", ["1424", " 1424 ", "00001424", 1424])
def test_a_number_may_stand_in_a_cell(value: Any) -> None:
    assert check_title({"bangumi_id": value}).bangumi_id == 1424


def test_a_field_that_no_title_has_is_refused_by_name() -> None:
    with pytest.raises(InvalidTitle, match="'posterr' is not a field"):
        check_title({"title_english": "A Fox", "posterr": "https://a.example/fox.jpg"})


def test_two_rows_of_one_title_say_what_both_say_and_the_later_word_counts() -> None:
    first = check_title({"bangumi_id": 7, "title_japanese": "きつね", "year": 2001})
    second = check_title({"bangumi_id": 7, "title_chinese": "狐", "year": 2002})
    assert merge(first, second) == check_title(
        {"bangumi_id": 7, "title_japanese": "きつね", "title_chinese": "狐", "year": 2002}
    )
