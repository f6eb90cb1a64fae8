"""What a store's client raises, in our words. Its own texts repeat addresses and whole answers: they stay inside."""

from __future__ import annotations

import re
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from obstore.exceptions import BaseError, PermissionDeniedError, UnauthenticatedError

from longtake.errors import ObjectMissing, StorageError, StorageFull, StorageRefused, StorageUnavailable

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

_STATUS = re.compile(r"non-2xx status code: (\d{3})")
_CODE = re.compile(r"<Code>([A-Za-z]{1,60})</Code>")
_HINT = "Check LONGTAKE_STORAGE_URL, LONGTAKE_S3_ACCESS_KEY_ID and LONGTAKE_S3_SECRET_ACCESS_KEY."
#: The server's own trouble, or ours with the clock: worth another try.
_TRANSIENT = frozenset((408, 425, 429, 500, 502, 503, 504))
_NO_ROOM = frozenset((507,))


@asynccontextmanager
async def translated(bucket: str) -> AsyncIterator[None]:
    """Turn what the client raises inside into our errors; everything else passes unchanged."""
    try:
        yield
    except (BaseError, FileNotFoundError) as error:
        raise translate(bucket, error) from None


def translate(bucket: str, error: BaseException) -> StorageError:
    """Return our error for the client's."""
    text = str(error)
    code = found[1] if (found := _CODE.search(text)) else None
    status = int(found[1]) if (found := _STATUS.search(text)) else None
    if code == "NoSuchBucket":
        return StorageRefused(f"There is no bucket {bucket}.", hint=_HINT)
    if isinstance(error, FileNotFoundError):
        return ObjectMissing("There is no object under this key.")
    said = f" ({code})" if code else f" (HTTP {status})" if status else ""
    if isinstance(error, PermissionDeniedError | UnauthenticatedError):
        return StorageRefused(f"The store does not let us into the bucket {bucket}{said}.", hint=_HINT)
    if status in _NO_ROOM:
        return StorageFull(f"The store of the bucket {bucket} has no room{said}.")
    if status is None or status in _TRANSIENT:
        return StorageUnavailable(f"The store of the bucket {bucket} cannot be used now{said or ': no answer'}.")
    return StorageRefused(f"The store of the bucket {bucket} refuses what we ask{said}.", hint=_HINT)
