"""Posters and covers: real pictures, each with bytes of its own, which change when they are told to."""

from __future__ import annotations

import http.client
import io
from datetime import timedelta
from email.utils import format_datetime, parsedate_to_datetime
from typing import TYPE_CHECKING, Any

import pytest
from PIL import Image

from longtake_sandbox import files
from longtake_sandbox.files import NEVER_CHANGED_SINCE, Covers, picture_file
from tests.sandbox.wire import ask
from tests.wait import PATIENCE_SECONDS

if TYPE_CHECKING:
    from tests.sandbox_process import SandboxProcess


@pytest.fixture
def title(sandbox: SandboxProcess) -> dict[str, Any]:
    found: dict[str, Any] = sandbox.titles(limit=1)[0]
    return found


@pytest.fixture
def url(title: dict[str, Any]) -> str:
    return str(title["cover_url"])


def poster_url(sandbox: SandboxProcess, title: dict[str, Any], size: str) -> str:
    show = ask("GET", f"{sandbox.tmdb_url}/tv/{title['tmdb_id']}?api_key={sandbox.key}").json
    return f"{sandbox.tmdb_images_url}/{size}{show['poster_path']}"


def size_of(content: bytes) -> tuple[int, int]:
    with Image.open(io.BytesIO(content), formats=("JPEG",)) as image:
        image.load()
        return image.size


@pytest.mark.parametrize(
    ("place", "size"),
    [
        ("pic/cover/l", (424, 600)),
        ("pic/cover/c", (150, 212)),
        ("pic/cover/m", (100, 142)),
        ("pic/cover/s", (75, 106)),
        ("pic/cover/g", (48, 48)),
        ("r/100/pic/cover/l", (100, 141)),
        ("r/1200/pic/cover/l", (1200, 1698)),
        ("r/300x200/pic/cover/l", (300, 200)),
    ],
)
def test_covers_come_in_their_sizes(url: str, place: str, size: tuple[int, int]) -> None:
    assert size_of(ask("GET", url.replace("pic/cover/l", place)).body) == size


@pytest.mark.parametrize("place", ["pic/cover/x", "r/401/pic/cover/l", "r/0x5/pic/cover/l", "r/1201x9/pic/cover/l"])
def test_other_sizes_of_covers_are_not_found(url: str, place: str) -> None:
    assert ask("GET", url.replace("pic/cover/l", place)).status == 404
    assert ask("GET", url.replace(".jpg", "x.jpg")).status == 404


@pytest.mark.parametrize(
    ("size", "pixels"), [("w92", (92, 138)), ("w500", (500, 750)), ("w780", (780, 1170)), ("original", (1000, 1500))]
)
def test_posters_come_in_their_sizes_and_in_no_other(
    sandbox: SandboxProcess, title: dict[str, Any], size: str, pixels: tuple[int, int]
) -> None:
    address = poster_url(sandbox, title, size)
    assert size_of(ask("GET", address).body) == pixels
    assert ask("GET", address.replace(size, "w93")).status == 404


def test_every_picture_has_bytes_of_its_own_and_keeps_them(sandbox: SandboxProcess) -> None:
    urls = [title["cover_url"] for title in sandbox.titles()]
    first = [ask("GET", one) for one in urls]
    assert len({answer.body for answer in first}) == len({answer.headers["etag"] for answer in first}) == len(urls)
    assert [ask("GET", one).body for one in urls[:5]] == [answer.body for answer in first[:5]]


def test_who_has_a_picture_already_does_not_get_it_again(url: str) -> None:
    answer = ask("GET", url)
    assert int(answer.headers["content-length"]) == len(answer.body)
    head = ask("HEAD", url)
    assert (head.body, head.headers["content-length"], head.headers["etag"]) == (
        b"", answer.headers["content-length"], answer.headers["etag"],
    )  # fmt: skip
    modified = answer.headers["last-modified"]
    before = format_datetime(parsedate_to_datetime(modified) - timedelta(seconds=1), usegmt=True)
    asked = [
        {"If-None-Match": answer.headers["etag"]},
        {"If-None-Match": '"other", W/' + answer.headers["etag"]},
        {"If-None-Match": "*"},
        {"If-Modified-Since": modified},
        {"If-None-Match": '"other"', "If-Modified-Since": modified},
        {"If-Modified-Since": before},
        {"If-Modified-Since": "yesterday"},
    ]
    answers = [ask("GET", url, headers=headers) for headers in asked]
    assert [one.status for one in answers] == [304, 304, 304, 304, 200, 200, 200]
    assert (answers[0].body, answers[0].headers["etag"]) == (b"", answer.headers["etag"])


def test_a_picture_can_change_behind_its_address(sandbox: SandboxProcess, title: dict[str, Any], url: str) -> None:
    urls = [url, poster_url(sandbox, title, "w342")]
    before = [ask("GET", one) for one in urls]
    sandbox.change_cover(title["bangumi_id"], 1)
    after = [
        ask("GET", one, headers={"If-None-Match": old.headers["etag"]}) for one, old in zip(urls, before, strict=True)
    ]
    for old, new in zip(before, after, strict=True):
        assert (new.status, new.body != old.body) == (200, True)
        assert parsedate_to_datetime(new.headers["last-modified"]) > parsedate_to_datetime(old.headers["last-modified"])
    assert sandbox.titles(limit=1)[0]["cover"] == 1
    sandbox.change_cover(title["bangumi_id"], 0)
    assert ask("GET", url).body == before[0].body


def test_two_changes_in_one_second_have_two_dates_and_no_change_has_none() -> None:
    covers = Covers()
    assert covers.of(7).since <= NEVER_CHANGED_SINCE
    dates = []
    for number in (1, 2, 2):
        covers.change(7, number, 2_000_000_000.5)
        dates.append(covers.of(7).since)
    assert dates == [2_000_000_000, 2_000_000_001, 2_000_000_001]


@pytest.mark.parametrize("body", [{}, {"bangumi_id": 1, "cover": -1}, {"bangumi_id": 1, "cover": 1, "x": 1}, []])
def test_a_change_that_makes_no_sense_is_refused(sandbox: SandboxProcess, body: Any) -> None:
    assert ask("POST", f"{sandbox.url}/_titles", body).status == 400
    assert ask("POST", f"{sandbox.url}/_titles", {"bangumi_id": 1, "cover": 1}).status == 404


def test_a_picture_is_drawn_and_encoded_once_whatever_its_name() -> None:
    picture_file(3, (424, 600), "warm")
    drawn, encoded = files._drawn.cache_info().misses, files._encoded.cache_info().misses
    made = {picture_file(3, (424, 600), f"picture {number}") for number in range(1000)}
    assert len(made) == 1000
    assert (files._drawn.cache_info().misses, files._encoded.cache_info().misses) == (drawn, encoded)


@pytest.mark.parametrize("provider", ["tmdb", "bangumi"])
@pytest.mark.parametrize(
    ("kind", "error"),
    [
        ("drop", (http.client.RemoteDisconnected, ConnectionResetError)),
        ("hang", TimeoutError),
        ("truncated", http.client.IncompleteRead),
    ],
)
def test_a_picture_can_fail_to_arrive(
    sandbox: SandboxProcess, title: dict[str, Any], url: str, provider: str, kind: str, error: Any
) -> None:
    address = poster_url(sandbox, title, "w500") if provider == "tmdb" else url
    etag = ask("GET", address).headers["etag"]
    sandbox.faults(kind, provider=provider, route="image", path_contains=address.rpartition("/")[2], times=1)
    with pytest.raises(error):
        ask("GET", address, headers={"If-None-Match": etag}, seconds=0.3)
    assert ask("GET", address).status == 200
    assert [call["fault"] for call in sandbox.calls(provider=provider, route="image")] == ["", kind, ""]


def test_a_picture_can_be_no_picture(sandbox: SandboxProcess, url: str) -> None:
    sandbox.faults("garbage", route="image", times=1)
    garbage = ask("GET", url)
    assert (garbage.status, garbage.headers["content-type"], garbage.body[:3]) == (200, "image/jpeg", b"\xff\xd8\xff")
    with pytest.raises(OSError, match=r"cannot identify|broken|truncated"):
        size_of(garbage.body)
    sandbox.faults("html", route="image", times=1)
    assert ask("GET", url).headers["content-type"].startswith("text/html")
    sandbox.faults("empty", route="image", times=1)
    empty = ask("GET", url)
    assert (empty.status, empty.headers["content-type"], empty.body) == (200, "image/jpeg", b"")
    sandbox.faults("status", status=503, route="image", times=1)
    assert ask("GET", url).status == 503


def test_a_picture_can_have_no_end(sandbox: SandboxProcess, url: str) -> None:
    whole = ask("GET", url).body
    sandbox.faults("endless", route="image", times=1)
    connection = http.client.HTTPConnection(sandbox.url.removeprefix("http://"), timeout=PATIENCE_SECONDS)
    connection.request("GET", url.removeprefix(sandbox.url))
    response = connection.getresponse()
    assert response.read(len(whole) + 200_000).startswith(whole)
    connection.close()
