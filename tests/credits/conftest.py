"""Commands as the service's tests run them."""

from tests.service.conftest import commands, place

__all__ = ["commands", "place"]
