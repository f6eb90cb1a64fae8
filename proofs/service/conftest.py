"""Commands in this process, and a place to run them in."""

from tests.service.conftest import commands, place

__all__ = ["commands", "place"]
