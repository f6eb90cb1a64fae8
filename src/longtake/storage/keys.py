"""Keys of objects: made by us, never by a caller or a provider, and checked all the same."""

import re

from longtake.errors import ObjectKeyInvalid

LONGEST_KEY = 500
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


def reference_key(asset_id: str, extension: str) -> str:
    """Return where a reference image goes."""
    return check_key(f"references/{asset_id}.{extension}")
