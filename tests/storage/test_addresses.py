"""Addresses of buckets: what other makers' stores need is known, and what cannot work is said before it is used."""

from __future__ import annotations

from pathlib import Path

import pytest

from longtake.adapters.storage import open_storage
from longtake.adapters.storage.local import LocalStorage
from longtake.adapters.storage.s3 import parse_s3_url
from longtake.errors import SettingsError
from longtake.settings import Settings


def test_a_bucket_of_aws_needs_nothing_but_its_region() -> None:
    address = parse_s3_url("s3://my-bucket?region=eu-central-1")
    assert (address.bucket, address.prefix, address.region) == ("my-bucket", None, "eu-central-1")
    assert (address.endpoint, address.virtual_hosted, address.plain_http) == (None, True, False)


def test_r2_has_the_region_auto_and_the_bucket_in_the_path() -> None:
    address = parse_s3_url("s3://my-bucket/media?endpoint=https://account.r2.cloudflarestorage.com")
    assert (address.region, address.virtual_hosted, address.prefix) == ("auto", False, "media")
    assert address.endpoint == "https://account.r2.cloudflarestorage.com"


@pytest.mark.parametrize("host", ["s3.oss-cn-hangzhou.aliyuncs.com", "my-bucket.s3.oss-cn-hangzhou.aliyuncs.com"])
def test_oss_has_the_bucket_in_the_host_and_deletes_one_by_one(host: str) -> None:
    address = parse_s3_url(f"s3://my-bucket?region=oss-cn-hangzhou&endpoint=https://{host}/")
    assert address.endpoint == "https://my-bucket.s3.oss-cn-hangzhou.aliyuncs.com"
    assert (address.virtual_hosted, address.bulk_delete) == (True, False)


def test_the_style_can_be_chosen() -> None:
    assert parse_s3_url("s3://my-bucket?endpoint=https://s3.example.com&style=virtual").endpoint == (
        "https://my-bucket.s3.example.com"
    )
    assert not parse_s3_url("s3://my-bucket?endpoint=https://s3.example.com&style=path").virtual_hosted


@pytest.mark.parametrize("host", ["127.0.0.1:9000", "localhost:9000", "[::1]:9000"])
def test_plain_http_is_for_this_machine(host: str) -> None:
    assert parse_s3_url(f"s3://my-bucket?endpoint=http://{host}").plain_http


@pytest.mark.parametrize(
    ("url", "reason"),
    [
        ("s3://my-bucket?endpoint=http://minio.example.com:9000", "must be https"),
        ("s3://my-bucket?endpoint=http://minio.example.com&plain_http=no", "must be https"),
        ("s3://my-bucket?endpoint=http://127.0.0.1.example.com", "must be https"),
        ("s3://my-bucket?endpoint=ftp://127.0.0.1", "must be http"),
        ("s3://my-bucket?endpoint=https://user:canary@example.com", "must be http"),
        ("s3://my-bucket?endpoint=https://example.com:port", "not a valid URL"),
        ("s3://my-bucket?style=other", "style must be"),
        ("s3://my-bucket?access_key_id=canary", "its options may only be"),
    ],
)
def test_what_cannot_work_is_said_without_repeating_it(url: str, reason: str) -> None:
    with pytest.raises(SettingsError, match=reason) as caught:
        parse_s3_url(url)
    assert "canary" not in str(caught.value)


def test_plain_http_elsewhere_needs_a_word() -> None:
    assert parse_s3_url("s3://my-bucket?endpoint=http://minio.example.com:9000&plain_http=yes").plain_http


def test_half_of_a_pair_of_keys_is_refused() -> None:
    with pytest.raises(SettingsError, match="LONGTAKE_S3_SECRET_ACCESS_KEY"):
        open_storage(Settings(storage_url="s3://my-bucket", s3_access_key_id="only-this"))


@pytest.mark.parametrize("url", ["file:{}", "file://{}", "FILE:{}"])
async def test_a_folder_is_found_however_it_is_written(url: str, tmp_path: Path) -> None:
    storage = open_storage(Settings(storage_url=url.format(tmp_path / "objects")))
    assert isinstance(storage, LocalStorage)
    await storage.put("a.png", b"x", "image/png")
    assert (tmp_path / "objects/a.png").read_bytes() == b"x"
