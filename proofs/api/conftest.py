"""Fixtures: the servers of the tests of the API."""

from tests.api.conftest import either_api, still_api

__all__ = ["either_api", "still_api"]
