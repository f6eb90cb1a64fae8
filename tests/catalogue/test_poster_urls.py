"""Addresses of posters: one spelling, one name, and other sizes of the same picture."""

from __future__ import annotations

import hashlib

import pytest
from hypothesis import given
from hypothesis import strategies as some

from longtake.capabilities.catalogue.errors import PosterPathInvalid
from longtake.capabilities.catalogue.poster_fetcher import URL_LIMIT, PosterHosts, is_local, poster_hash

HOSTS = PosterHosts()
COVER = "https://lain.bgm.tv/pic/cover/l/aa/bb/1424_xyz.jpg"
STILL = "https://image.tmdb.org/t/p/w500/abc.jpg"


@pytest.mark.parametrize("size", ["100", "200", "400", "600", "800", "1200", "400x600", "1x1"])
def test_a_cover_of_bangumi_loses_the_size_it_was_asked_for_in(size: str) -> None:
    assert HOSTS.normalised(f"https://lain.bgm.tv/r/{size}/pic/cover/l/aa/bb/1424_xyz.jpg") == COVER


@pytest.mark.parametrize("host", ["lain.bgm.tv", "bgm.tv", "a.b.bgm.tv", "LAIN.BGM.TV"])
@pytest.mark.parametrize("scheme", ["http", "https"])
def test_every_host_of_bangumi_counts(scheme: str, host: str) -> None:
    assert HOSTS.normalised(f"{scheme}://{host}/r/400/pic/x.jpg") == f"{scheme}://{host}/pic/x.jpg"


@pytest.mark.parametrize(
    "url",
    [
        "https://evilbgm.tv/r/400/pic/x.jpg",
        "https://bgm.tv.example.com/r/400/pic/x.jpg",
        "https://example.com/r/400/pic/x.jpg",
        "https://example.com/bgm.tv/r/400/pic/x.jpg",
        "https://lain.bgm.tv/r/400",
        "https://lain.bgm.tv/r/large/pic/x.jpg",
        "https://lain.bgm.tv/r/400x/pic/x.jpg",
        "https://lain.bgm.tv/pic/x.jpg?r=/r/400",
        COVER,
        STILL,
    ],
)
def test_what_has_no_size_of_bangumis_stays_as_it_is(url: str) -> None:
    assert HOSTS.normalised(url) == url


def test_only_the_first_size_goes_and_space_around_an_address_does_not_count() -> None:
    assert HOSTS.normalised("  https://lain.bgm.tv/r/400/r/200/x.jpg\n") == "https://lain.bgm.tv/r/200/x.jpg"


def test_covers_are_known_by_where_the_settings_say_they_are() -> None:
    hosts = PosterHosts(bangumi="http://127.0.0.1:8585/bangumi-images/")
    own = "http://127.0.0.1:8585/bangumi-images"
    assert hosts.normalised(f"{own}/r/400/pic/cover/l/x.jpg") == f"{own}/pic/cover/l/x.jpg"
    assert hosts.normalised(f"{own}-of-another/r/400/x.jpg") == f"{own}-of-another/r/400/x.jpg"


@pytest.mark.parametrize(
    ("url", "much"),
    [(COVER, True), (STILL, True), ("https://BGM.tv/x.jpg", True), ("https://image.tmdb.org.example.com/x.jpg", False)],
)
def test_the_hosts_that_most_posters_are_at_are_known(url: str, much: bool) -> None:
    assert HOSTS.is_main_source(url) is much


def test_the_name_is_the_beginning_of_the_hash_of_the_address() -> None:
    assert poster_hash(COVER) == hashlib.sha256(COVER.encode()).hexdigest()[:16]
    assert poster_hash("https://lain.bgm.tv/pic/cover/l/3f/8a/1_a.jpg") == "572fa49fa6541274"


def test_a_cover_is_asked_for_as_it_is_and_then_in_all_other_sizes() -> None:
    at = "https://lain.bgm.tv/pic/cover/{}/x.jpg"
    assert list(HOSTS.sizes(at.format("l"))) == [at.format(size) for size in "lcmsg"]
    assert list(HOSTS.sizes(at.format("m"))) == [at.format(size) for size in "mlcsg"]


def test_a_still_of_tmdb_is_asked_for_as_it_is_and_then_in_all_other_sizes() -> None:
    at = "https://image.tmdb.org/t/p/{}/abc.jpg"
    order = ["w500", "w780", "w342", "original", "w185", "w154", "w92"]
    assert list(HOSTS.sizes(at.format("w500"))) == [at.format(size) for size in order]


@pytest.mark.parametrize(
    "url", ["https://example.com/pic/cover/l/x.jpg", "https://lain.bgm.tv/x.jpg", "https://image.tmdb.org/x.jpg"]
)
def test_an_address_without_sizes_is_the_only_one(url: str) -> None:
    assert list(HOSTS.sizes(url)) == [url]


@given(some.sampled_from("lcmsg"), some.sampled_from(["w780", "w500", "w342", "original", "w185", "w154", "w92"]))
def test_no_size_is_asked_for_twice(cover: str, still: str) -> None:
    for url in (f"https://lain.bgm.tv/pic/cover/{cover}/x.jpg", f"https://image.tmdb.org/t/p/{still}/x.jpg"):
        sizes = list(HOSTS.sizes(url))
        assert sizes[0] == url
        assert len(set(sizes)) == len(sizes) > 1


@given(some.sampled_from(["http://lain.bgm.tv", "https://example.com"]), some.text(max_size=60))
def test_an_address_that_is_in_the_one_spelling_stays_so_unless_it_has_more_sizes(host: str, rest: str) -> None:
    once = HOSTS.normalised(f"{host}/pic/{rest.replace('/r/', '')}")
    assert HOSTS.normalised(once) == once


@pytest.mark.parametrize("poster", ["/posters/0f343b0931126a20.jpg", "/posters/my-own_one.webp", "/posters/a"])
def test_a_path_of_ours_is_local(poster: str) -> None:
    assert is_local(poster)


@pytest.mark.parametrize("poster", [COVER, STILL, "HTTP://example.com/x", "https://[::1]/x"])
def test_an_address_is_not_local(poster: str) -> None:
    assert not is_local(poster)


@pytest.mark.parametrize(
    "poster",
    [
        "/posters/../secrets.db", "/posters/..", "/posters/.hidden", "/posters/a/b.jpg", "/posters/", "/posters",
        "/posters/%2e%2e", "/posters/a\0b", "/posters/a\n", "/posters/a b", "/posters/ä.jpg", "/posters/" + "a" * 102,
        "posters/a.jpg", "/etc/passwd", "../posters/a.jpg", "\\posters\\a.jpg", "", "a", "ftp://example.com/x.jpg",
        "file:///etc/passwd", "data:image/png;base64,AAAA", "//lain.bgm.tv/x.jpg", "https://", "http:///x.jpg",
        "https:/example.com", "https://[::1/x.jpg", "https://example.com/" + "x" * URL_LIMIT,
    ],
)  # fmt: skip
def test_a_poster_must_be_an_address_or_the_path_of_a_stored_poster(poster: str) -> None:
    """A17: object keys that we did not make."""
    with pytest.raises(PosterPathInvalid) as refused:
        is_local(poster)
    assert refused.value.code == "POSTER_PATH_INVALID"
    assert refused.value.message.endswith(".")
    assert refused.value.hint
