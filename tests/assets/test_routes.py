"""Files over HTTP: whole and in parts, by token and by link, never to anybody else, and never a surprise."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING
from urllib.parse import parse_qs, urlsplit

import pytest

from longtake.clock import new_id
from longtake.services.assets import NewAsset, register_asset
from tests.assets.service import Service
from tests.assets.stage import MP4, PNG
from tests.storages import s3_storage

if TYPE_CHECKING:
    from longtake import Database
    from tests.s3_server import S3Server


async def test_an_assets_url_gives_its_file(any_service: Service) -> None:
    """G6: readers get our address if there is one."""
    asset_id = await any_service.keep(PNG)
    answer = await any_service.ask("GET", f"/v1/assets/{asset_id}")
    assert answer.status == 200
    assert (answer.json["save_state"], answer.json["size"]) == ("success", len(PNG))
    assert answer.json["checksum"] == hashlib.sha256(PNG).hexdigest()
    assert "key" not in answer.json
    file = await any_service.ask("GET", answer.json["url"], user=None)
    assert (file.status, file.body, file.headers["content-type"]) == (200, PNG, "image/png")
    assert file.headers["content-disposition"] == f'inline; filename="{asset_id}.png"'


async def test_the_owners_token_gives_the_file_or_leads_to_it(any_service: Service) -> None:
    asset_id = await any_service.keep(MP4, "video")
    answer = await any_service.ask("GET", f"/v1/assets/{asset_id}/content")
    if answer.status == 307:
        answer = await any_service.ask("GET", answer.headers["location"], user=None)
    assert (answer.status, answer.body) == (200, MP4)


async def test_a_store_that_signs_is_where_readers_are_sent(sqlite_database: Database, s3_server: S3Server) -> None:
    async with Service(sqlite_database, s3_storage(s3_server)).running() as service:
        asset_id = await service.keep(PNG)
        answer = await service.ask("GET", f"/v1/assets/{asset_id}/content")
        assert answer.status == 307
        query = parse_qs(urlsplit(answer.headers["location"]).query)
        assert 0 < int(query["X-Amz-Expires"][0]) <= 300


async def test_no_browser_takes_a_served_file_for_a_page(service: Service) -> None:
    """A16: headers of files that are served."""
    asset_id = await service.keep(PNG)
    headers = (await service.ask("GET", f"/v1/assets/{asset_id}/content")).headers
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["content-security-policy"] == "default-src 'none'; sandbox"
    assert headers["content-type"] == "image/png"
    assert headers["accept-ranges"] == "bytes"


async def test_a_file_of_an_unknown_type_is_only_downloaded(service: Service) -> None:
    await service.storage.put("results/x/page.html", b"<script>", "text/html")
    new = NewAsset(user_id="alice", kind="image", key="results/x/page.html", content_type="text/html", checksum="00")
    asset_id = await service.database.run(register_asset, new)
    headers = (await service.ask("GET", f"/v1/assets/{asset_id}/content")).headers
    assert headers["content-type"] == "application/octet-stream"
    assert headers["content-disposition"].startswith("attachment")


@pytest.mark.parametrize(
    ("wanted", "start", "end"), [("bytes=0-99", 0, 100), ("bytes=100-", 100, None), ("bytes=-7", -7, None)]
)
async def test_a_part_of_a_file_is_served(service: Service, wanted: str, start: int, end: int | None) -> None:
    path = f"/v1/assets/{await service.keep(PNG)}/content"
    answer = await service.ask("GET", path, headers={"Range": wanted})
    part = PNG[start:end]
    first = start % len(PNG)
    assert (answer.status, answer.body) == (206, part)
    assert answer.headers["content-range"] == f"bytes {first}-{first + len(part) - 1}/{len(PNG)}"
    assert answer.headers["content-length"] == str(len(part))


async def test_a_range_after_the_end_is_416(service: Service) -> None:
    path = f"/v1/assets/{await service.keep(PNG)}/content"
    answer = await service.ask("GET", path, headers={"Range": f"bytes={len(PNG)}-"})
    assert (answer.status, answer.headers["content-range"]) == (416, f"bytes */{len(PNG)}")


async def test_head_tells_the_length_and_sends_nothing(any_service: Service) -> None:
    path = f"/v1/assets/{await any_service.keep(PNG)}/content"
    answer = await any_service.ask("HEAD", path)
    assert (answer.status, answer.body, answer.headers["content-length"]) == (200, b"", str(len(PNG)))


async def test_a_file_that_has_not_changed_is_not_sent_again(service: Service) -> None:
    path = f"/v1/assets/{await service.keep(PNG)}/content"
    etag = (await service.ask("GET", path)).headers["etag"]
    assert etag == f'"{hashlib.sha256(PNG).hexdigest()}"'
    again = await service.ask("GET", path, headers={"If-None-Match": f'"other", {etag}'})
    assert (again.status, again.body) == (304, b"")
    resumed = await service.ask("GET", path, headers={"Range": "bytes=5-", "If-Range": etag})
    assert (resumed.status, resumed.body) == (206, PNG[5:])
    changed = await service.ask("GET", path, headers={"Range": "bytes=5-", "If-Range": '"other"'})
    assert (changed.status, changed.body) == (200, PNG)


@pytest.mark.parametrize(
    "path",
    [
        "/v1/assets/{}", "/v1/assets/{}/content", "/v1/assets/{}/thumbnail", "/v1/assets/{}/preview",
        "/v1/references/{}",
    ],
)  # fmt: skip
async def test_assets_of_other_users_are_not_found(both_service: Service, path: str) -> None:
    """A24: other users' rows."""
    other = await both_service.keep(PNG, user="bob")
    for asset_id in (other, new_id()):
        answer = await both_service.ask("GET", path.format(asset_id))
        assert (answer.status, answer.json["code"]) == (404, "NOT_FOUND")
    assert (await both_service.ask("GET", path.format(other), user=None)).status == 401
    assert (await both_service.ask("GET", path.format("../../etc"), user="bob")).status in {404, 422}


async def test_an_object_deleted_behind_our_back_answers_410_and_not_500(any_service: Service) -> None:
    """F34: an object is deleted behind our back."""
    asset_id = await any_service.keep(PNG)
    key = (await any_service.asset(asset_id)).key
    assert key is not None
    await any_service.storage.delete([key])
    for method in ("GET", "HEAD"):
        answer = await any_service.ask(method, f"/v1/assets/{asset_id}/content")
        assert answer.status == 410
    assert (await any_service.ask("GET", f"/v1/assets/{asset_id}/content")).json["code"] == "ASSET_GONE"


async def test_readers_get_the_providers_address_until_there_is_a_copy(both_service: Service) -> None:
    """G6: readers get our address if there is one."""
    source = "https://files.example.com/result.png?signature=theirs"
    asset_id = await both_service.database.run(
        register_asset, NewAsset(user_id="alice", kind="image", source_url=source)
    )
    expires = (await both_service.asset(asset_id)).source_expires_at
    assert expires is not None
    both_service.clock.jump((expires - both_service.clock.now()).total_seconds() - 1)
    facts = (await both_service.ask("GET", f"/v1/assets/{asset_id}")).json
    assert (facts["url"], facts["save_state"]) == (source, "pending")
    answer = await both_service.ask("GET", f"/v1/assets/{asset_id}/content")
    assert (answer.status, answer.headers["location"]) == (307, source)
    both_service.clock.jump(2)
    assert (await both_service.ask("GET", f"/v1/assets/{asset_id}")).json["url"] is None
    assert (await both_service.ask("GET", f"/v1/assets/{asset_id}/content")).status == 410


async def test_an_address_that_is_not_of_the_web_is_never_handed_on(service: Service) -> None:
    new = NewAsset(user_id="alice", kind="image", source_url="javascript:alert(1)", source_expires_in=None)
    asset_id = await service.database.run(register_asset, new)
    assert (await service.ask("GET", f"/v1/assets/{asset_id}")).json["url"] is None
    assert (await service.ask("GET", f"/v1/assets/{asset_id}/content")).status == 410


async def test_a_link_is_for_one_file_and_expires_soon(service: Service) -> None:
    """A18: signed links are short-lived and for one object."""
    mine, other = await service.keep(PNG), await service.keep(PNG)
    link = await service.links.url(await service.asset(mine), 60)
    assert link is not None
    assert (await service.ask("GET", link, user=None)).status == 200
    query = parse_qs(urlsplit(link).query)
    expires = query["expires"][0]
    for forged in (
        link.replace(mine, other),
        link.replace(f"expires={expires}", f"expires={int(expires) + 1}"),
        link[:-2],
        link.replace("&signature=", "&signature=%C3%A4"),
        link.replace(f"expires={expires}&", ""),
        link.partition("&signature")[0],
        link.replace(f"expires={expires}", "expires=soon"),
    ):
        answer = await service.ask("GET", forged, user=None)
        assert (answer.status, answer.json["code"]) == (403, "LINK_INVALID"), forged
    service.clock.advance(61)
    answer = await service.ask("GET", link, user=None)
    assert (answer.status, answer.json["detail"]) == (403, "This link has expired.")


async def test_a_link_of_another_server_is_worth_nothing_here(service: Service) -> None:
    asset = await service.asset(await service.keep(PNG))
    link = await service.links.url(asset)
    assert link is not None
    service.links.secret = lambda: b"another secret of the same length"
    assert (await service.ask("GET", link, user=None)).status == 403


async def test_the_routes_are_described(service: Service) -> None:
    paths = (await service.ask("GET", "/openapi.json")).json["paths"]
    content = paths["/v1/assets/{asset_id}/content"]
    assert set(content) == {"get", "head"}
    assert {"200", "206", "307", "403", "404", "410", "416"} <= set(content["get"]["responses"])
    upload = paths["/v1/references"]["post"]
    assert set(upload["requestBody"]["content"]) == {"image/png", "image/jpeg", "image/webp"}
    assert all(operation["summary"] for path in paths.values() for operation in path.values() if "assets" in str(path))
