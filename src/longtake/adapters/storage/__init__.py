"""Objects: media files under keys of our own making, in a folder or in an S3-compatible store."""

from longtake.adapters.storage.open import open_storage
from longtake.adapters.storage.storage import Facts, NewObject, Storage, Stored

__all__ = ["Facts", "NewObject", "Storage", "Stored", "open_storage"]
