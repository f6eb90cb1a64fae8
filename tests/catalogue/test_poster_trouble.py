"""Posters that cannot be had: what is said, what is kept (nothing), and when they are asked for again."""

from __future__ import annotations

import struct
import subprocess
import zlib
from typing import TYPE_CHECKING, Any

import pytest
from aiohttp import web

from longtake.capabilities.catalogue import poster_fetcher
from longtake.capabilities.catalogue.tables import POSTER
from tests.assets.stage import Source, status
from tests.catalogue.stage import CatalogueStudio, picture
from tests.s3_server import ACCESS_KEY_ID, BUCKET, SECRET_ACCESS_KEY

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.catalogue.conftest import Open
    from tests.databases import StoppedClock

LANE = "catalogue.posters"
SVG = b'<svg xmlns="http://www.w3.org/2000/svg"><script>alert(1)</script></svg>'


def huge_png() -> bytes:
    """Return a PNG of a few bytes that says it has 50,000 by 50,000 pixels."""

    def chunk(kind: bytes, body: bytes) -> bytes:
        return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))

    header = struct.pack(">IIBBBBB", 50_000, 50_000, 8, 2, 0, 0, 0)
    pixels = zlib.compress(b"\0" * 100_000)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", pixels) + chunk(b"IEND", b"")


async def endless(request: web.Request) -> web.StreamResponse:
    answer = web.StreamResponse()
    await answer.prepare(request)
    while True:
        await answer.write(b"\xff\xd8\xff" + b"x" * 1_000_000)


async def with_poster(studio: CatalogueStudio, url: str) -> str:
    return await studio.bring(title_english=f"of {url}", poster=url)


async def error_of(studio: CatalogueStudio, title_id: str) -> tuple[str, str]:
    error = (await studio.show(title_id))["error"]
    assert error["message"].endswith("."), error
    return error["of"], error["code"]


NO_PICTURES: dict[str, Any] = {
    "empty": b"",
    "html": b"<!doctype html><title>Not found</title>",
    "svg": SVG,
    "pdf": b"%PDF-1.7 ...",
    "video": b"\0\0\0\x18ftypisom" + b"x" * 500,
    "half-jpeg": picture("JPEG")[:-200],
    "half-png": picture("PNG")[:-20],
    "noise": b"\xff\xd8\xff" + b"x" * 500,
    "50000-pixels": huge_png(),
    "20-MB": picture() + b"\0" * 20_000_000,
    "endless": endless,
}


async def test_a_poster_must_be_a_whole_picture(studio: CatalogueStudio, source: Source) -> None:
    """F40, F46, A14, A15: HTML with status 200 instead of media."""
    source.files |= {f"/{name}.jpg": body for name, body in NO_PICTURES.items()}
    titles = {url: await with_poster(studio, url) for url in [source.url + f"/{name}.jpg" for name in NO_PICTURES]}
    await studio.work()
    for url, title_id in titles.items():
        assert await error_of(studio, title_id) == ("poster", "POSTER_BROKEN"), url
        title = await studio.show(title_id)
        assert (title["poster_url"], title["poster_state"]) == (url, "remote")
    assert await studio.files() == []
    assert len(source.requests) == len(NO_PICTURES), "each was asked for once"
    source.files |= {f"/{name}.jpg": picture() for name in NO_PICTURES}
    studio.clock.advance(3_600)
    await studio.sync()
    for url, title_id in titles.items():
        title = await studio.show(title_id)
        assert (title["poster_state"], title["error"]) == ("stored", None), f"{url} is well again after an hour"


async def test_a_poster_that_keeps_failing_rests_longer_each_time(studio: CatalogueStudio, source: Source) -> None:
    """M2: posters."""
    title_id = await with_poster(studio, source.url + "/x.jpg")
    await studio.work()
    hours = []
    for number in range(1, 13):
        assert len(source.requests) == number
        row = await studio.poster(source.url + "/x.jpg")
        assert (row["failures"], row["error_code"]) == (number, "POSTER_HTTP_STATUS")
        [(seconds,)] = await studio.rests()
        hours.append(round(seconds / 3_600))
        studio.clock.advance(seconds - 30)
        await studio.sync()
        assert len(source.requests) == number, "not before its time"
        studio.clock.advance(31)
        await studio.sync()
    assert hours == [1, 2, 4, 8, 16, 32, 64, 128, 168, 168, 168, 168]
    source.files["/x.jpg"] = picture()
    studio.clock.advance(7 * 86_400)
    await studio.sync()
    assert (await studio.show(title_id))["poster_state"] == "stored"
    assert (await studio.poster(source.url + "/x.jpg"))["failures"] == 0


async def test_a_size_that_is_missing_is_made_up_for_by_the_next(studio: CatalogueStudio) -> None:
    cover = studio.truth("exact")["cover_url"]
    rule = studio.sandbox.faults("status", status=404, route="image", path_contains="/cover/l/")
    title_id = await with_poster(studio, cover)
    await studio.work()
    assert (await studio.show(title_id))["poster_state"] == "stored"
    assert studio.sandbox.applied(rule) == 1
    row = await studio.poster(cover)
    assert (row["fetched_from"], row["width"]) == (cover.replace("/cover/l/", "/cover/c/"), 150)
    studio.clock.advance(8 * 86_400)
    await studio.sync()
    assert [call["status"] for call in studio.images()] == [404, 200, 404, 304], "the one that it came from is asked"


async def test_a_still_of_tmdb_is_asked_for_in_other_sizes_too(studio: CatalogueStudio) -> None:
    show = studio.sandbox.ask("GET", f"/tmdb/3/tv/{studio.truth('exact')['tmdb_id']}?api_key={studio.sandbox.key}")
    still = f"{studio.sandbox.tmdb_images_url}/w500{show['poster_path']}"
    studio.sandbox.clear_calls()
    studio.sandbox.faults("status", status=404, route="image", path_contains="/w500/")
    studio.sandbox.faults("html", route="image", path_contains="/w780/")
    title_id = await with_poster(studio, still)
    await studio.work()
    assert (await studio.show(title_id))["poster_state"] == "stored"
    assert (await studio.poster(still))["fetched_from"] == still.replace("/w500/", "/w342/")


async def test_when_no_size_is_there_it_says_so_and_rests(studio: CatalogueStudio) -> None:
    studio.sandbox.faults("status", status=404, route="image")
    title_id = await with_poster(studio, studio.truth("exact")["cover_url"])
    await studio.work()
    assert await error_of(studio, title_id) == ("poster", "POSTER_HTTP_STATUS")
    assert "404" in (await studio.show(title_id))["error"]["message"]
    assert len(studio.images()) == 5
    await studio.sync()
    assert len(studio.images()) == 5


@pytest.mark.parametrize(
    ("fault", "code"),
    [
        ({"kind": "status", "status": 500}, "POSTER_HTTP_STATUS"),
        ({"kind": "status", "status": 503}, "POSTER_HTTP_STATUS"),
        ({"kind": "drop"}, "POSTER_UNREACHABLE"), ({"kind": "truncated"}, "POSTER_UNREACHABLE"),
    ],
    ids=["500", "503", "drop", "truncated"],
)  # fmt: skip
async def test_a_passing_failure_is_tried_three_times_then_rests_for_an_hour(
    studio: CatalogueStudio, fault: dict[str, Any], code: str
) -> None:
    """F36, F39: a provider answers 5xx."""
    rule = studio.sandbox.faults(**fault, route="image")
    title_id = await with_poster(studio, studio.truth("exact")["cover_url"])
    await studio.until_rest()
    tries = studio.sandbox.applied(rule)
    assert await error_of(studio, title_id) == ("poster", code), "a title says so while it is being tried"
    [wait] = await studio.wait_of(POSTER)
    assert 0 < wait <= 5
    await studio.work()
    assert studio.sandbox.applied(rule) == 3 * tries
    assert {call["path"] for call in studio.images()} == {studio.images()[0]["path"]}, (
        "a server in trouble has no sizes"
    )
    [(seconds,)] = await studio.rests()
    assert seconds == pytest.approx(3_600, abs=60)
    assert await studio.files() == []
    studio.sandbox.clear_faults()
    studio.clock.advance(3_600)
    await studio.sync()
    title = await studio.show(title_id)
    assert (title["poster_state"], title["error"]) == ("stored", None)


async def test_a_silent_poster_server_is_given_up_after_its_time_limit(
    studio: CatalogueStudio, monkeypatch: pytest.MonkeyPatch
) -> None:
    """F30: half-open connections."""
    monkeypatch.setattr(poster_fetcher, "SECONDS", 0.5)
    studio.sandbox.faults("hang", route="image", times=1)
    title_id = await with_poster(studio, studio.truth("exact")["cover_url"])
    await studio.until_rest()
    assert await error_of(studio, title_id) == ("poster", "POSTER_UNREACHABLE")
    await studio.work()
    assert (await studio.show(title_id))["poster_state"] == "stored"


async def test_a_busy_image_server_is_obeyed_and_holds_back_the_lane(studio: CatalogueStudio) -> None:
    """F37: 429 with Retry-After."""
    studio.sandbox.faults("status", status=429, retry_after=50, route="image", times=1)
    title_id = await with_poster(studio, studio.truth("exact")["cover_url"])
    await studio.until_rest()
    assert await error_of(studio, title_id) == ("poster", "POSTER_HTTP_STATUS")
    assert await studio.wait_of(POSTER) == [pytest.approx(50, abs=2)]
    lane = await studio.lane(LANE)
    assert lane.state.blocked == pytest.approx(50, abs=2)
    assert lane.state.slowdown > 1
    studio.clock.advance(51)
    await studio.work()
    assert (await studio.show(title_id))["poster_state"] == "stored"
    assert [call["status"] for call in studio.images()] == [429, 200]


async def test_another_busy_host_holds_back_only_its_own_poster(studio: CatalogueStudio, source: Source) -> None:
    """F37: 429 with Retry-After."""
    source.files["/x.jpg"] = status(429, "later", {"Retry-After": "3600"})
    busy = await with_poster(studio, source.url + "/x.jpg")
    await studio.until_rest()
    assert await error_of(studio, busy) == ("poster", "POSTER_HTTP_STATUS")
    assert await studio.wait_of(POSTER) == [pytest.approx(3_600, abs=2)]
    lane = await studio.lane(LANE)
    assert (lane.state.blocked, lane.state.slowdown) == (None, 1)
    cover = await with_poster(studio, studio.truth("exact")["cover_url"])
    await studio.until_rest()
    assert (await studio.show(cover))["poster_state"] == "stored"
    assert len(source.requests) == 1


PRIVATE = [
    "http://10.0.0.1/x.jpg", "http://169.254.169.254/latest/meta-data", "http://100.64.0.1/x", "http://0.0.0.0/x",
    "http://[::1]/x", "http://[::ffff:10.0.0.1]/x", "http://[64:ff9b::a9fe:a9fe]/x", "http://[2002:7f00:1::]/x",
    "http://[fd00:ec2::254]/x", "http://100.100.100.200/x", "http://0177.0.0.1/x", "http://2130706433/x",
    "http://127.1/x", "http://user:password@127.0.0.1/x", "http://127.0.0.1\\@example.com/x", "http://198.18.0.1/x",
    "http://224.0.0.1/x",
]  # fmt: skip


async def test_a_poster_inside_our_network_is_never_requested(studio: CatalogueStudio) -> None:
    """A1–A7, A11: only http and https, and loopback only where a setting allows it."""
    titles = {url: await with_poster(studio, url) for url in PRIVATE}
    await studio.work()
    for url, title_id in titles.items():
        assert await error_of(studio, title_id) == ("poster", "POSTER_PATH_INVALID"), url
    assert studio.sandbox.calls() == []
    assert await studio.files() == []


async def test_a_redirect_into_our_network_is_not_followed(studio: CatalogueStudio, source: Source) -> None:
    """A3: every redirect is checked again."""

    async def lead_inside(_request: web.Request) -> web.StreamResponse:
        raise web.HTTPFound("http://169.254.169.254/latest/meta-data")

    source.files["/x.jpg"] = lead_inside
    title_id = await with_poster(studio, source.url + "/x.jpg")
    await studio.work()
    assert await error_of(studio, title_id) == ("poster", "POSTER_PATH_INVALID")


async def test_loopback_is_requested_only_if_a_setting_allows_it(open_studio: Open, source: Source) -> None:
    """A1: only http and https, and loopback only where a setting allows it."""
    source.files["/x.jpg"] = picture()
    async with open_studio(allow_addresses="") as studio:
        title_id = await with_poster(studio, source.url + "/x.jpg")
        await studio.work()
        assert await error_of(studio, title_id) == ("poster", "POSTER_PATH_INVALID")
    assert source.requests == []


# -- our own storage ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("obstacle", "operation"), [("posters", "read"), (".incoming", "written")])
async def test_an_unusable_folder_is_named_with_the_operation_and_nothing_is_lost(
    studio: CatalogueStudio, tmp_path: Path, obstacle: str, operation: str
) -> None:
    """F31, M7: the storage fails or is slow."""
    (tmp_path / "objects").mkdir(exist_ok=True)
    (tmp_path / "objects" / obstacle).write_bytes(b"in the way")
    title_id = await with_poster(studio, studio.truth("exact")["cover_url"])
    await studio.until_rest()
    assert await error_of(studio, title_id) == ("poster", "POSTER_IO")
    message = (await studio.show(title_id))["error"]["message"]
    assert f"could not be {operation}" in message
    assert "posters/" in message
    assert str(tmp_path) not in message
    (tmp_path / "objects" / obstacle).unlink()
    await studio.work()
    title = await studio.show(title_id)
    assert (title["poster_state"], title["error"]) == ("stored", None)


async def test_an_unreachable_bucket_is_tried_again(open_studio: Open) -> None:
    """F31: the storage fails or is slow."""
    nobody = f"s3://{BUCKET}/x?region=us-east-1&endpoint=http://127.0.0.1:9"
    keys = {"s3_access_key_id": ACCESS_KEY_ID, "s3_secret_access_key": SECRET_ACCESS_KEY}
    async with open_studio(storage_url=nobody, **keys) as studio:
        title_id = await with_poster(studio, studio.truth("exact")["cover_url"])
        await studio.until_rest()
        assert await error_of(studio, title_id) == ("poster", "POSTER_IO")
        assert len(await studio.wait_of(POSTER)) == 1
    async with open_studio() as studio:
        await studio.work()
        assert (await studio.show(title_id))["poster_state"] == "stored"


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    folder = tmp_path / "objects"
    folder.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", str(folder)]
    if subprocess.run(command, check=False, capture_output=True).returncode:
        pytest.skip("mounting a small disk needs rights that this process has not")
    yield folder
    subprocess.run(["umount", folder], check=True, timeout=10)


async def test_a_full_disk_keeps_no_half_poster_and_the_poster_comes_when_there_is_room(
    small_disk: Path, open_studio: Open
) -> None:
    """F22, M7: the disk is full."""
    async with open_studio() as studio:
        (small_disk / "filler").write_bytes(b"\0" * 250_000)
        title_id = await with_poster(studio, studio.truth("exact")["cover_url"])
        await studio.until_rest()
        assert await error_of(studio, title_id) == ("poster", "POSTER_IO")
        assert "no room" in (await studio.show(title_id))["error"]["message"]
        assert await studio.files() == []
        assert list((small_disk / ".incoming").iterdir()) == []
        (small_disk / "filler").unlink()
        await studio.work()
        assert (await studio.show(title_id))["poster_state"] == "stored"


async def test_a_poster_of_which_all_tries_failed_because_of_the_storage_is_fetched_after_its_rest(
    studio: CatalogueStudio, tmp_path: Path, clock: StoppedClock
) -> None:
    (tmp_path / "objects").mkdir(exist_ok=True)
    (tmp_path / "objects" / "posters").write_bytes(b"in the way")
    title_id = await with_poster(studio, studio.truth("exact")["cover_url"])
    await studio.work()
    assert await error_of(studio, title_id) == ("poster", "POSTER_IO")
    (tmp_path / "objects" / "posters").unlink()
    clock.advance(3_600)
    await studio.sync()
    assert (await studio.show(title_id))["poster_state"] == "stored"


async def test_a_status_that_nobody_expects_is_told(studio: CatalogueStudio, source: Source) -> None:
    source.files["/x.jpg"] = status(418, "I am a teapot")
    title_id = await with_poster(studio, source.url + "/x.jpg")
    await studio.work()
    assert await error_of(studio, title_id) == ("poster", "POSTER_HTTP_STATUS")
    assert "418" in (await studio.show(title_id))["error"]["message"]


async def test_one_poster_in_trouble_keeps_no_other_from_coming(studio: CatalogueStudio, source: Source) -> None:
    source.files["/good.png"] = picture()
    bad = await with_poster(studio, source.url + "/bad.png")
    good = await with_poster(studio, source.url + "/good.png")
    await studio.work()
    assert [(await studio.show(one))["poster_state"] for one in (bad, good)] == ["remote", "stored"]
    status_now = await studio.catalogue.status()
    assert status_now["in_trouble"] == 1
    assert status_now["posters"] == {"none": 0, "remote": 1, "stored": 1}
