"""Reads `s3://bucket/folder?region=…&endpoint=…`, with the defaults that each maker's store needs."""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass
from urllib.parse import SplitResult, parse_qsl, urlsplit

from longtake.errors import SettingsError

OPTIONS = ("region", "endpoint", "style", "plain_http")
EXAMPLE = "Example: s3://my-bucket?region=auto&endpoint=https://ACCOUNT.r2.cloudflarestorage.com"
R2 = ".r2.cloudflarestorage.com"
OSS = ".aliyuncs.com"


@dataclass(frozen=True, slots=True)
class S3Address:
    """Where a bucket is, and how to send requests to it."""

    bucket: str
    prefix: str | None
    region: str
    #: None means AWS's endpoint of the region. With the virtual style the bucket is part of the host.
    endpoint: str | None
    virtual_hosted: bool
    plain_http: bool
    #: Alibaba's OSS cannot delete many objects in one request.
    bulk_delete: bool


def parse_s3_url(url: str) -> S3Address:
    """Return the parsed address. Raises SettingsError that says what is wrong with it."""
    parts = urlsplit(url)
    options = _options(parts.query)
    endpoint = _split(options["endpoint"]) if "endpoint" in options else None
    host = (endpoint.hostname or "") if endpoint else ""
    style = options.get("style", "path" if endpoint and not host.endswith(OSS) else "virtual")
    if style not in {"path", "virtual"}:
        raise _wrong("its style must be path or virtual")
    plain = endpoint is not None and endpoint.scheme == "http"
    if plain and options.get("plain_http") != "yes" and not _is_loopback(host):
        raise _wrong("its endpoint must be https; plain_http=yes allows http on a trusted network")
    return S3Address(
        bucket=parts.netloc,
        prefix=parts.path.strip("/") or None,
        region=options.get("region", "auto" if host.endswith(R2) else "us-east-1"),
        endpoint=_endpoint(endpoint, parts.netloc, virtual=style == "virtual") if endpoint else None,
        virtual_hosted=style == "virtual",
        plain_http=plain,
        bulk_delete=not host.endswith(OSS),
    )


def _options(query: str) -> dict[str, str]:
    options = dict(parse_qsl(query, keep_blank_values=True))
    unknown = sorted(set(options) - set(OPTIONS))
    if unknown:
        # The option is not repeated: the address may contain a secret key.
        raise _wrong(f"its options may only be {', '.join(OPTIONS)}")
    return options


def _split(endpoint: str) -> SplitResult:
    try:
        parts = urlsplit(endpoint)
        _port = parts.port
    except ValueError:
        raise _wrong("its endpoint is not a valid URL") from None
    if parts.scheme not in {"http", "https"} or not parts.hostname or parts.username or parts.query or parts.fragment:
        raise _wrong("its endpoint must be http(s)://host[:port], without a user, query or fragment")
    return parts


def _endpoint(endpoint: SplitResult, bucket: str, *, virtual: bool) -> str:
    host = endpoint.netloc
    if virtual and not host.startswith(f"{bucket}."):
        host = f"{bucket}.{host}"
    return f"{endpoint.scheme}://{host}{endpoint.path.rstrip('/')}"


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _wrong(reason: str) -> SettingsError:
    return SettingsError(f"LONGTAKE_STORAGE_URL cannot be used: {reason}. {EXAMPLE}")
