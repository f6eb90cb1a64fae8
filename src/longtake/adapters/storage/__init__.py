"""Stores of objects: media files under keys that Longtake makes, in a folder or an S3-compatible bucket."""

from longtake.adapters.storage.storage import NewObject, ObjectFacts, Storage, Stored, open_storage

__all__ = ["NewObject", "ObjectFacts", "Storage", "Stored", "open_storage"]
