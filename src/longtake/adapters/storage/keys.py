"""Keys of objects. Longtake makes them, never a caller or a provider; they are checked all the same."""

import re

from longtake.adapters.storage.errors import ObjectKeyInvalid

LONGEST_KEY = 500
#: The folders of objects that rows name.
FOLDERS = ("results", "references", "thumbnails", "previews")
_PICTURE = re.compile(
    r"(?:thumbnails|previews)/([0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12})"
    r"-v[0-9]+(?:-([0-9]{1,9}))?\.[a-z]+"
)
#: Letters, digits, dot, hyphen and underscore, and no part that begins with a dot: so no `..`, no `%2e`, no NUL,
#: no empty part, nothing absolute, nothing hidden.
_KEY = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]*(?:/[A-Za-z0-9_-][A-Za-z0-9._-]*)*")


def check_key(key: str) -> str:
    """Return the key unchanged, or raise ObjectKeyInvalid. A key that fails here is a bug, or an attack."""
    if len(key) > LONGEST_KEY or not _KEY.fullmatch(key):
        raise ObjectKeyInvalid("This is not a valid object key.", hint="Longtake itself makes all keys.")
    return key


def result_key(asset_id: str, token: str, extension: str) -> str:
    """Return the key of a result.

    It contains the token of the run that writes it: two runs of one job never write the same object, and the row names
    the one that counts.
    """
    return check_key(f"results/{asset_id}/{token}.{extension}")


def result_folder(asset_id: str) -> str:
    """Return the folder of an asset's results, including those of runs that failed."""
    return check_key(f"results/{asset_id}")


def reference_key(asset_id: str, extension: str) -> str:
    """Return the key of a reference image."""
    return check_key(f"references/{asset_id}.{extension}")


def thumbnail_key(asset_id: str, file_number: int = 1) -> str:
    """Return the key of a thumbnail. Two runs make the same picture, so the key needs no token.

    A file that replaces the first has a thumbnail, and a key, of its own.
    """
    return check_key(f"thumbnails/{asset_id}-v2{_later(file_number)}.jpg")


def preview_key(asset_id: str, file_number: int = 1) -> str:
    """Return the key of a moving preview."""
    return check_key(f"previews/{asset_id}-v1{_later(file_number)}.webp")


def poster_key(file: str) -> str:
    """Return the key of a poster or its small copy. The file name identifies the picture and its version."""
    return check_key(f"posters/{file}")


def picture_of(key: str) -> tuple[str, int] | None:
    """Return the asset id and file number of a thumbnail or preview; None for every other key."""
    found = _PICTURE.fullmatch(key)
    return (found[1], int(found[2] or 1)) if found else None


def _later(file_number: int) -> str:
    return "" if file_number == 1 else f"-{file_number}"
