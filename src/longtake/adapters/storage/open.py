"""Opening the store that the settings name."""

from pathlib import Path

from longtake.adapters.storage.local import LocalStorage
from longtake.adapters.storage.storage import Storage
from longtake.errors import SettingsError
from longtake.settings import Settings


def open_storage(settings: Settings) -> Storage:
    """Open the store; nothing is asked of it yet (see ``Storage.check``). Keys left out are AWS's own variables."""
    url = settings.storage_url
    if url.lower().startswith("file:"):
        path = url[len("file:") :]
        # `file:///absolute/folder` has an empty host before its path.
        return LocalStorage(Path(path.removeprefix("//") if path.startswith("///") else path))
    # Only the client that is needed is loaded.
    from longtake.adapters.storage.s3 import S3Storage  # noqa: PLC0415
    from longtake.adapters.storage.s3_address import parse_s3_url  # noqa: PLC0415

    key_id, secret = settings.s3_access_key_id, settings.s3_secret_access_key.get_secret_value()
    if bool(key_id) != bool(secret):
        raise SettingsError(
            "LONGTAKE_S3_ACCESS_KEY_ID and LONGTAKE_S3_SECRET_ACCESS_KEY are a pair: set both of them, or neither."
        )
    return S3Storage(parse_s3_url(url), access_key_id=key_id, secret_access_key=secret)
