from collections.abc import AsyncIterator

import pytest

from longtake.adapters.net import HttpClient


@pytest.fixture
async def client() -> AsyncIterator[HttpClient]:
    """A client that may talk to one loopback address."""
    opened = HttpClient(allowed_addresses=["127.0.0.1/32"])
    yield opened
    await opened.close()


@pytest.fixture
async def strict_client() -> AsyncIterator[HttpClient]:
    """A client as it is without any setting."""
    opened = HttpClient()
    yield opened
    await opened.close()
