"""Keys of objects: made by us, never by a caller or a provider, and checked all the same."""

import re

from longtake.errors import ObjectKeyInvalid

LONGEST_KEY = 500
#: The folders of objects that belong to rows.
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
        raise ObjectKeyInvalid("That is not a key of an object.", hint="Keys are made by Longtake itself.")
    return key


def result_key(asset_id: str, token: str, extension: str) -> str:
    """Return where a result goes.

    The token of the run that writes it is part of the key: two runs of one job never write the same object, and the
    row names the one that counts.
    """
    return check_key(f"results/{asset_id}/{token}.{extension}")


def result_folder(asset_id: str) -> str:
    """Return where all results of an asset are, those of runs that came to nothing among them."""
    return check_key(f"results/{asset_id}")


def reference_key(asset_id: str, extension: str) -> str:
    """Return where a reference image goes."""
    return check_key(f"references/{asset_id}.{extension}")


def thumbnail_key(asset_id: str, file_number: int = 1) -> str:
    """Return where a thumbnail goes. The same picture made twice is the same picture: no token is needed.

    That of another file, which took the place of the first, is another picture.
    """
    return check_key(f"thumbnails/{asset_id}-v2{_later(file_number)}.jpg")


def preview_key(asset_id: str, file_number: int = 1) -> str:
    """Return where a moving preview goes."""
    return check_key(f"previews/{asset_id}-v1{_later(file_number)}.webp")


def poster_key(file: str) -> str:
    """Return where a poster, or its small copy, is: its name says which picture, and which version of it."""
    return check_key(f"posters/{file}")


def picture_of(key: str) -> tuple[str, int] | None:
    """Return the asset, and which of its files, this is a thumbnail or preview of; None for every other key."""
    found = _PICTURE.fullmatch(key)
    return (found[1], int(found[2] or 1)) if found else None


def _later(file_number: int) -> str:
    return "" if file_number == 1 else f"-{file_number}"
