"""Errors of stores of objects."""

from longtake.errors import LongtakeError


class StorageError(LongtakeError):
    """Objects could not be written or read."""

    code = "STORAGE_ERROR"
    http_status = 500


class StorageUnavailable(StorageError):
    """The object store cannot be used now. You can try again."""

    code = "STORAGE_UNAVAILABLE"
    http_status = 503
    exit_code = 3
    default_hint = "Check that the store runs and can be reached. Work then continues automatically."


class StorageFull(StorageUnavailable):
    """The object store has no room left. No part of this object was kept."""

    code = "STORAGE_FULL"
    default_hint = "Free space where LONGTAKE_STORAGE_URL points. You do not need to restart anything."


class StorageRefused(StorageError):
    """The object store denies access: wrong keys, no such bucket, or a folder this user cannot write to."""

    code = "STORAGE_REFUSED"
    exit_code = 2
    default_hint = "Check LONGTAKE_STORAGE_URL, and that this user can read and write there."


class ObjectMissing(StorageError):
    """There is no object with this key."""

    code = "OBJECT_MISSING"
    http_status = 404


class ObjectKeyInvalid(StorageError):
    """The key is not one that Longtake makes."""

    code = "OBJECT_KEY_INVALID"


class ObjectTooLarge(StorageError):
    """The object is too large; `limit` gives the maximum in bytes."""

    code = "OBJECT_TOO_LARGE"
    http_status = 413
