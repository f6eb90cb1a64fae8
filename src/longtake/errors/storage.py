"""Of objects in storage."""

from longtake.errors.base import LongtakeError


class StorageError(LongtakeError):
    """Objects could not be written or read."""

    code = "STORAGE_ERROR"


class StorageUnavailable(StorageError):
    """The store of objects cannot be used now. Trying again is right."""

    code = "STORAGE_UNAVAILABLE"
    default_hint = "Check that the store runs and can be reached; work goes on by itself once it can."


class StorageFull(StorageUnavailable):
    """There is no room for objects. Nothing was kept of this one."""

    code = "STORAGE_FULL"
    default_hint = "Make room where LONGTAKE_STORAGE_URL points; nothing needs to be restarted."


class StorageRefused(StorageError):
    """The store does not let us in: wrong keys, no such bucket, or a folder that this user may not write."""

    code = "STORAGE_REFUSED"
    default_hint = "Check LONGTAKE_STORAGE_URL, and that this user may read and write there."


class ObjectMissing(StorageError):
    """There is no object under this key."""

    code = "OBJECT_MISSING"


class ObjectKeyInvalid(StorageError):
    """The key is not one that Longtake makes."""

    code = "OBJECT_KEY_INVALID"


class ObjectTooLarge(StorageError):
    """The object has more bytes than are kept; `limit` says how many that are."""

    code = "OBJECT_TOO_LARGE"
