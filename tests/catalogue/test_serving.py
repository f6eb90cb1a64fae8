"""Posters over HTTP: open to all, kept by caches for a year, and fetched again when somebody took them away."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.catalogue.service import Service
from tests.catalogue.stage import CatalogueStudio
from tests.s3_server import ACCESS_KEY_ID, BUCKET, SECRET_ACCESS_KEY

if TYPE_CHECKING:
    from pathlib import Path

    from tests.accounts.stage import Answer
    from tests.catalogue.conftest import Open


async def stored(studio: CatalogueStudio) -> tuple[str, str]:
    """Return a title with a stored poster, and where that is."""
    title_id = await studio.bring(title_english="a", poster=studio.truth("exact")["cover_url"])
    await studio.work()
    return title_id, (await studio.show(title_id))["poster_url"]


async def get(service: Service, path: str, method: str = "GET", **headers: str) -> Answer:
    """Ask as nobody in particular."""
    return await service.ask(method, path, role=None, headers=headers)


async def test_a_poster_is_public_and_cacheable(either_store: CatalogueStudio) -> None:
    """A16: headers of files that are served."""
    title_id, path = await stored(either_store)
    service = Service(either_store)
    answer = await get(service, path)
    assert (answer.status, answer.body) == (200, await either_store.body(path))
    headers = answer.headers
    assert headers["content-type"] == "image/jpeg"
    assert headers["cache-control"] == "public, max-age=31536000, immutable"
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["content-length"] == str(len(answer.body))
    assert headers["content-security-policy"] == "default-src 'none'; sandbox"
    assert headers["accept-ranges"] == "bytes"
    small = await get(service, (await either_store.show(title_id))["thumbnail_url"])
    assert (small.status, small.headers["content-type"]) == (200, "image/webp")


async def test_who_has_a_poster_already_is_sent_nothing(either_store: CatalogueStudio) -> None:
    _title, path = await stored(either_store)
    service = Service(either_store)
    etag = (await get(service, path)).headers["etag"]
    same = await get(service, path, **{"if-none-match": etag})
    assert (same.status, same.body, same.headers["etag"]) == (304, b"", etag)
    other = await get(service, path, **{"if-none-match": '"another"'})
    assert (other.status, len(other.body) > 0) == (200, True)


async def test_a_part_of_a_poster_is_sent_alone(either_store: CatalogueStudio) -> None:
    _title, path = await stored(either_store)
    service, body = Service(either_store), await either_store.body(path)
    part = await get(service, path, range="bytes=10-19")
    assert (part.status, part.body) == (206, body[10:20])
    assert part.headers["content-range"] == f"bytes 10-19/{len(body)}"
    end = await get(service, path, range="bytes=-5")
    assert (end.status, end.body) == (206, body[-5:])
    beyond = await get(service, path, range=f"bytes={len(body)}-")
    assert (beyond.status, beyond.headers["content-range"]) == (416, f"bytes */{len(body)}")
    changed = await get(service, path, range="bytes=10-19", **{"if-range": '"another"'})
    assert (changed.status, changed.body) == (200, body)


async def test_the_headers_of_a_poster_can_be_had_alone(studio: CatalogueStudio) -> None:
    _title, path = await stored(studio)
    service = Service(studio)
    head, whole = await get(service, path, "HEAD"), await get(service, path)
    assert (head.status, head.body) == (200, b"")
    assert {name: head.headers[name] for name in ("content-length", "etag", "content-type", "cache-control")} == {
        name: whole.headers[name] for name in ("content-length", "etag", "content-type", "cache-control")
    }


ELSEWHERE = [
    "..", "../longtake.db", "%2e%2e%2flongtake.db", "..%2f..%2fetc%2fpasswd", "%2e%2e", ".hidden", "a/b.jpg",
    "a%2fb.jpg", "a%00b.jpg", "a%0a", "%252e%252e%252fx", "x" * 200 + ".jpg", "", "ä.jpg", "a b.jpg",
    "a\\b.jpg", "%ff.jpg",
]  # fmt: skip


async def test_a_name_that_leads_elsewhere_finds_no_poster(studio: CatalogueStudio, tmp_path: Path) -> None:
    """A17: object keys that we did not make."""
    (tmp_path / "objects" / "posters").mkdir(parents=True)
    (tmp_path / "objects" / "secret.jpg").write_bytes(b"secret")
    service = Service(studio)
    for name in ELSEWHERE:
        answer = await get(service, f"/posters/{name}")
        assert answer.status in {404, 405, 422}, (name, answer.body)
        assert b"secret" not in answer.body
        assert answer.json["code"] in {"NOT_FOUND", "REQUEST_INVALID", "ROUTE_UNKNOWN"}


async def test_a_poster_that_there_never_was_is_not_found_and_nothing_is_written(
    studio: CatalogueStudio, monkeypatch: pytest.MonkeyPatch
) -> None:
    _title, path = await stored(studio)
    before = [await studio.sql(f"SELECT * FROM {table}") for table in ("titles", "posters", "jobs", "events")]
    written: list[Any] = []
    run = studio.database.run

    async def noted(function: Any, *arguments: Any, **options: Any) -> Any:
        written.append(function)
        return await run(function, *arguments, **options)

    monkeypatch.setattr(studio.database, "run", noted)
    name = path.removeprefix("/posters/").partition(".")[0]
    service = Service(studio)
    for unknown in ("0123456789abcdef.jpg", "nobody.png", f"{name}.png", f"{name}-2.jpg", f"{name}x.jpg"):
        answer = await get(service, f"/posters/{unknown}")
        assert (answer.status, answer.json["code"]) == (404, "NOT_FOUND")
    assert written == []
    assert [await studio.sql(f"SELECT * FROM {table}") for table in ("titles", "posters", "jobs", "events")] == before


@pytest.mark.parametrize("lost", ["poster_url", "thumbnail_url"])
async def test_a_poster_deleted_behind_our_back_answers_404_once_and_is_fetched_again(
    either_store: CatalogueStudio, lost: str
) -> None:
    """F34: an object is deleted behind our back."""
    studio = either_store
    title_id, _path = await stored(studio)
    title = await studio.show(title_id)
    service = Service(studio)
    await studio.storage.delete([title[lost].removeprefix("/")])
    answer = await get(service, title[lost])
    assert (answer.status, answer.json["code"]) == (404, "NOT_FOUND")
    meanwhile = await studio.show(title_id)
    assert (meanwhile["poster_url"], meanwhile["thumbnail_url"]) == (title["poster_source"], None)
    await studio.sync_and_leave()
    again = await studio.show(title_id)
    assert again["poster_state"] == "stored"
    for path in (again["poster_url"], again["thumbnail_url"]):
        assert (await get(service, path)).status == 200
    studio.clock.advance(2 * 86_400)
    await studio.sync()
    kept = {again["poster_url"].removeprefix("/posters/"), again["thumbnail_url"].removeprefix("/posters/")}
    assert set(await studio.files()) == kept, "nothing is left of the version before"


async def test_an_unusable_store_answers_503(open_studio: Open) -> None:
    """F31: the storage fails or is slow."""
    nobody = f"s3://{BUCKET}/x?region=us-east-1&endpoint=http://127.0.0.1:9"
    keys = {"s3_access_key_id": ACCESS_KEY_ID, "s3_secret_access_key": SECRET_ACCESS_KEY}
    async with open_studio(storage_url=nobody, **keys) as studio:
        answer = await get(Service(studio), "/posters/0123456789abcdef.jpg")
    assert (answer.status, answer.json["code"]) == (503, "STORAGE_UNAVAILABLE")
