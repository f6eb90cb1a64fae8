"""Thumbnails and previews over HTTP: as files are, each by a link of its own."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, urlsplit

import pytest
from sqlalchemy import insert, update

from longtake.adapters.storage.keys import preview_key, thumbnail_key
from longtake.capabilities.media.store import asset_pictures
from longtake.services.assets import assets
from tests.assets.picture_stage import drawn
from tests.assets.stage import MP4

if TYPE_CHECKING:
    from longtake import Transaction
    from tests.assets.service import Service

THUMBNAIL = drawn((960, 540), "JPEG")
PREVIEW = drawn((320, 180), "WEBP")
PLACEHOLDER = "data:image/webp;base64,UklGRg=="


async def change(service: Service, asset_id: str, **values: Any) -> None:
    def write(tx: Transaction) -> None:
        tx.execute(update(assets).where(assets.c.id == asset_id).values(**values))

    await service.database.run(write)


async def with_pictures(service: Service, user: str = "alice") -> str:
    """Keep a video that has a thumbnail and a preview."""
    asset_id = await service.keep(MP4, "video", user)
    await service.storage.put(thumbnail_key(asset_id), THUMBNAIL, "image/jpeg")
    await service.storage.put(preview_key(asset_id), PREVIEW, "image/webp")
    await change(
        service,
        asset_id,
        thumbnail_state="completed",
        thumbnail_key=thumbnail_key(asset_id),
        placeholder=PLACEHOLDER,
        preview_state="completed",
        preview_key=preview_key(asset_id),
        width=640,
        height=360,
        duration_seconds=2.5,
    )
    return asset_id


async def with_waiting_picture(service: Service) -> str:
    """Keep a video whose thumbnail the storage has not taken yet."""
    asset_id = await service.keep(MP4, "video")
    await change(service, asset_id, thumbnail_state="completed")

    def write(tx: Transaction) -> None:
        tx.execute(insert(asset_pictures).values(asset_id=asset_id, user_id="alice", picture=THUMBNAIL))

    await service.database.run(write)
    return asset_id


async def test_the_facts_of_an_asset_have_addresses_that_give_its_pictures(any_service: Service) -> None:
    asset_id = await with_pictures(any_service)
    facts = (await any_service.ask("GET", f"/v1/assets/{asset_id}")).json
    assert (facts["thumbnail_state"], facts["thumbnail_error"], facts["placeholder"]) == (
        "completed",
        None,
        PLACEHOLDER,
    )
    assert (facts["width"], facts["height"], facts["duration_seconds"]) == (640, 360, 2.5)
    for member, body, content_type in (
        ("thumbnail_url", THUMBNAIL, "image/jpeg"),
        ("preview_url", PREVIEW, "image/webp"),
    ):
        file = await any_service.ask("GET", facts[member], user=None)
        assert (file.status, file.body, file.headers["content-type"]) == (200, body, content_type)


async def test_while_there_are_none_their_addresses_are_null_and_404(both_service: Service) -> None:
    asset_id = await both_service.keep(MP4, "video")
    await change(both_service, asset_id, thumbnail_state="failed", thumbnail_error="MEDIA_REFUSED: It is damaged.")
    facts = (await both_service.ask("GET", f"/v1/assets/{asset_id}")).json
    assert (facts["thumbnail_url"], facts["preview_url"], facts["placeholder"]) == (None, None, None)
    assert (facts["width"], facts["height"], facts["duration_seconds"]) == (None, None, None)
    assert (facts["thumbnail_state"], facts["thumbnail_error"]) == ("failed", "MEDIA_REFUSED")
    for variant in ("thumbnail", "preview"):
        answer = await both_service.ask("GET", f"/v1/assets/{asset_id}/{variant}")
        assert (answer.status, answer.json["code"]) == (404, "NOT_FOUND")


@pytest.mark.parametrize("variant", ["thumbnail", "preview"])
async def test_thumbnails_and_previews_are_served_with_the_headers_of_files(service: Service, variant: str) -> None:
    """A16: headers of files that are served."""
    path = f"/v1/assets/{await with_pictures(service)}/{variant}"
    body = THUMBNAIL if variant == "thumbnail" else PREVIEW
    whole = await service.ask("GET", path)
    assert (whole.status, whole.body) == (200, body)
    assert whole.headers["x-content-type-options"] == "nosniff"
    assert whole.headers["content-security-policy"] == "default-src 'none'; sandbox"
    part = await service.ask("GET", path, headers={"Range": "bytes=10-19"})
    assert (part.status, part.body) == (206, body[10:20])
    same = await service.ask("GET", path, headers={"If-None-Match": whole.headers["etag"]})
    assert (same.status, same.body) == (304, b"")
    head = await service.ask("HEAD", path)
    assert (head.status, head.headers["content-length"]) == (200, str(len(body)))
    beyond = await service.ask("GET", path, headers={"Range": f"bytes={len(body)}-"})
    assert beyond.status == 416


async def test_a_thumbnail_that_waits_for_the_storage_is_served_already(both_service: Service) -> None:
    """V1: copy and thumbnail do not wait for each other."""
    asset_id = await with_waiting_picture(both_service)
    link = (await both_service.ask("GET", f"/v1/assets/{asset_id}")).json["thumbnail_url"]
    by_link = await both_service.ask("GET", link, user=None)
    assert (by_link.status, by_link.body, by_link.headers["content-type"]) == (200, THUMBNAIL, "image/jpeg")
    assert by_link.headers["x-content-type-options"] == "nosniff"
    path = f"/v1/assets/{asset_id}/thumbnail"
    part = await both_service.ask("GET", path, headers={"Range": "bytes=-7"})
    assert (part.status, part.body) == (206, THUMBNAIL[-7:])
    same = await both_service.ask("GET", path, headers={"If-None-Match": by_link.headers["etag"]})
    assert same.status == 304
    assert (await both_service.ask("GET", path, user="bob")).status == 404


async def test_a_link_is_valid_for_the_file_the_thumbnail_or_the_preview(service: Service) -> None:
    """A18: signed links are short-lived and for one object."""
    asset_id = await with_pictures(service)
    facts = (await service.ask("GET", f"/v1/assets/{asset_id}")).json
    for member in ("url", "thumbnail_url", "preview_url"):
        for variant in ("content", "thumbnail", "preview"):
            own = urlsplit(facts[member]).path.rpartition("/")[2]
            link = facts[member].replace(f"/{own}?", f"/{variant}?")
            expected = 200 if variant == own else 403
            assert (await service.ask("GET", link, user=None)).status == expected, (member, variant)
    service.clock.advance(301)
    assert (await service.ask("GET", facts["thumbnail_url"], user=None)).status == 403


async def test_a_thumbnail_deleted_behind_our_back_answers_410(any_service: Service) -> None:
    """F34: an object is deleted behind our back."""
    asset_id = await with_pictures(any_service)
    await any_service.storage.delete([thumbnail_key(asset_id), preview_key(asset_id)])
    for variant in ("thumbnail", "preview"):
        answer = await any_service.ask("GET", f"/v1/assets/{asset_id}/{variant}")
        assert (answer.status, answer.json["code"]) == (410, "ASSET_GONE")


async def test_a_thumbnail_that_an_application_brought_is_where_readers_are_sent(both_service: Service) -> None:
    asset_id = await both_service.keep(MP4, "video")
    await change(both_service, asset_id, thumbnail_state="none", thumbnail_url="https://files.example.com/own.jpg")
    facts = (await both_service.ask("GET", f"/v1/assets/{asset_id}")).json
    assert facts["thumbnail_url"] == "https://files.example.com/own.jpg"
    answer = await both_service.ask("GET", f"/v1/assets/{asset_id}/thumbnail")
    assert (answer.status, answer.headers["location"]) == (307, "https://files.example.com/own.jpg")


@pytest.mark.parametrize(
    "address", ["javascript:alert(1)", "data:image/svg+xml,<svg/>", "file:///etc/passwd", "http://["]
)
async def test_an_address_that_is_not_of_the_web_is_no_thumbnail(service: Service, address: str) -> None:
    asset_id = await service.keep(MP4, "video")
    await change(service, asset_id, thumbnail_state="none", thumbnail_url=address)
    assert (await service.ask("GET", f"/v1/assets/{asset_id}")).json["thumbnail_url"] is None
    assert (await service.ask("GET", f"/v1/assets/{asset_id}/thumbnail")).status == 404


async def test_an_asset_of_which_nothing_is_to_be_copied_can_be_shown(both_service: Service) -> None:
    asset_id = await both_service.keep(MP4, "video")
    # As when its address begins with our public prefix.
    await change(both_service, asset_id, source_url="https://media.example.com/own.mp4")
    await change(both_service, asset_id, mirror_state="none", key=None)
    facts = (await both_service.ask("GET", f"/v1/assets/{asset_id}")).json
    assert (facts["save_state"], facts["url"]) == ("none", "https://media.example.com/own.mp4")


async def test_links_of_a_bucket_lead_straight_to_the_picture(any_service: Service) -> None:
    asset_id = await with_pictures(any_service)
    answer = await any_service.ask("GET", f"/v1/assets/{asset_id}/thumbnail")
    if answer.status == 307:
        query = parse_qs(urlsplit(answer.headers["location"]).query)
        assert 0 < int(query["X-Amz-Expires"][0]) <= 300
    else:
        assert answer.body == THUMBNAIL
