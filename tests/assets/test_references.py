"""Reference images: checked before a byte is kept, kept as they are, and handed to providers in their own form."""

from __future__ import annotations

from io import BytesIO
from typing import TYPE_CHECKING, Any

import pytest
from PIL import Image

from longtake.adapters.decoder.errors import MediaRefused
from longtake.capabilities.media.imports import check_reference
from longtake.services.assets import NewAsset, reference_for_provider
from longtake.services.assets.errors import AssetGone
from longtake.services.assets.files import keep_bytes
from tests.assets.service import REFERENCE_BYTES, Service, token
from tests.assets.stage import MP4, PNG
from tests.storages import keys_in

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from longtake import Database
    from longtake.adapters.storage import Storage


def picture(form: str = "PNG", size: tuple[int, int] = (80, 100)) -> bytes:
    file = BytesIO()
    Image.new("RGB", size, "navy").save(file, form)
    return file.getvalue()


async def upload(service: Service, body: Any, content_type: str = "image/png", **options: Any) -> Any:
    return await service.ask("POST", "/v1/references", body=body, headers={"Content-Type": content_type}, **options)


@pytest.mark.parametrize("form", ["PNG", "JPEG", "WEBP"])
async def test_a_reference_is_stored_unchanged(sqlite_database: Database, storage: Storage, form: str) -> None:
    """X5: reference images."""
    async with Service(sqlite_database, storage).running() as service:
        body, content_type = picture(form), f"image/{form.lower()}"
        answer = await upload(service, body, content_type)
        assert answer.status == 201
        reference = answer.json
        assert (reference["role"], reference["kind"], reference["save_state"]) == ("reference", "image", "success")
        assert (reference["width"], reference["height"], reference["size"]) == (80, 100, len(body))
        assert reference["content_type"] == content_type
        file = await service.ask("GET", reference["url"], user=None)
        assert (file.status, file.body) == (200, body)
        seen = (await service.ask("GET", f"/v1/references/{reference['id']}")).json
        assert {**seen, "url": None} == {**reference, "url": None}


async def test_the_same_picture_again_is_another_reference(both_service: Service) -> None:
    first, second = [(await upload(both_service, picture())).json["id"] for _ in range(2)]
    assert first != second


@pytest.mark.parametrize(
    ("body", "content_type"),
    [
        (picture("JPEG"), "image/png"),
        (picture("GIF"), "image/gif"),
        (picture("GIF"), "image/png"),
        (picture(), "application/octet-stream"),
        (picture(), ""),
        (b"<svg xmlns='http://www.w3.org/2000/svg'/>", "image/svg+xml"),
        (b"<svg xmlns='http://www.w3.org/2000/svg'/>", "image/png"),
        (b"", "image/png"),
        (MP4, "video/mp4"),
        (picture()[:-70], "image/png"),
        (picture(size=(20, 2000)), "image/png"),
    ],
    ids=[
        "jpeg as png",
        "gif",
        "gif as png",
        "no type",
        "empty type",
        "svg",
        "svg as png",
        "empty",
        "video",
        "cut",
        "thin",
    ],
)
async def test_a_reference_that_is_no_usable_image_is_refused(service: Service, body: bytes, content_type: str) -> None:
    """A15: files in other formats."""
    answer = await upload(service, body, content_type)
    assert (answer.status, answer.json["code"]) == (422, "MEDIA_REFUSED")
    assert await keys_in(service.storage, "references") == []


@pytest.mark.parametrize(
    ("form", "claimed"), [("JPEG", "image/png"), ("PNG", "image/jpeg"), ("PNG", "image/webp"), ("GIF", "image/gif")]
)
def test_the_type_that_is_claimed_must_be_the_one_of_the_bytes(form: str, claimed: str) -> None:
    with pytest.raises(MediaRefused, match="its Content-Type says") as caught:
        check_reference(picture(form), claimed)
    assert f"image/{form.lower()}" in caught.value.message


def test_parameters_and_capitals_of_a_type_do_not_matter() -> None:
    assert check_reference(picture(), "Image/PNG; name=x").content_type == "image/png"


async def test_a_file_that_is_too_large_is_refused(service: Service) -> None:
    answer = await upload(service, picture() + bytes(REFERENCE_BYTES))
    assert (answer.status, answer.json["code"], answer.json["limit"]) == (413, "OBJECT_TOO_LARGE", REFERENCE_BYTES)

    async def endless() -> AsyncIterator[bytes]:
        while True:
            yield bytes(50_000)

    answer = await upload(service, endless())
    assert answer.status == 413
    assert await keys_in(service.storage, "references") == []


async def test_uploading_needs_a_token_that_may_make_things(service: Service) -> None:
    assert (await upload(service, picture(), user=None)).status == 401
    reading = {"Content-Type": "image/png", "Authorization": f"Bearer {token(scope='read')}"}
    answer = await service.ask("POST", "/v1/references", user=None, body=picture(), headers=reading)
    assert (answer.status, answer.json["code"]) == (403, "FORBIDDEN")


async def test_a_result_is_not_a_reference(service: Service) -> None:
    asset_id = await service.keep(PNG)
    assert (await service.ask("GET", f"/v1/references/{asset_id}")).status == 404


async def test_a_provider_gets_the_bytes_or_an_address_that_gives_them(any_service: Service) -> None:
    body, storage, links = picture(), any_service.storage, any_service.links
    asset = await any_service.asset((await upload(any_service, body)).json["id"])
    by_bytes = await reference_for_provider(storage, links, asset, "bytes")
    assert (by_bytes.content_type, by_bytes.body, by_bytes.url) == ("image/png", body, None)
    by_url = await reference_for_provider(storage, links, asset, "url")
    assert by_url.body is None
    assert by_url.url is not None
    assert (await any_service.ask("GET", by_url.url, user=None)).body == body


async def test_a_reference_whose_file_is_gone_is_told_as_such(service: Service) -> None:
    asset = await service.asset((await upload(service, picture())).json["id"])
    assert asset.key is not None
    await service.storage.delete([asset.key])
    with pytest.raises(AssetGone):
        await reference_for_provider(service.storage, service.links, asset, "bytes")


async def test_bytes_of_a_provider_are_stored_before_a_row_says_so(folder_storage: Storage) -> None:
    new = await keep_bytes(folder_storage, NewAsset(user_id="alice", kind="image"), PNG, "token")
    assert new.key == f"results/{new.id}/token.png"
    assert (new.size, new.content_type) == (len(PNG), "image/png")
    assert await folder_storage.get(new.key, len(PNG)) == PNG
    for body in (MP4, b"<html>", b""):
        with pytest.raises(MediaRefused):
            await keep_bytes(folder_storage, NewAsset(user_id="alice", kind="image"), body, "token")
    assert len(await keys_in(folder_storage, "results")) == 1
