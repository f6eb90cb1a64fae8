"""Fixtures: a browser, pages of an origin of their own, and a server that lets that origin in."""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING

import pytest
import pytest_asyncio

from proofs.client.browser import running_browser
from proofs.client.pages import serving_pages
from tests.api.stage import Api, place_for

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator
    from pathlib import Path

    from playwright.async_api import Browser, BrowserContext

    from tests.service.processes import Place


@pytest.fixture(scope="session")
def origin() -> Iterator[str]:
    """Where pages with the client are."""
    with serving_pages() as address:
        yield address


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def browser() -> AsyncIterator[Browser]:
    """One browser for the tests of a module; they must not end it."""
    async with running_browser() as running:
        yield running


@pytest_asyncio.fixture(loop_scope="module")
async def context(browser: Browser) -> AsyncIterator[BrowserContext]:
    """A fresh profile: its tabs share locks, channels and storage, with nobody else."""
    profile = await browser.new_context()
    yield profile
    await profile.close()


@pytest.fixture(params=["sqlite", "postgresql"])
def either_place(request: pytest.FixtureRequest, tmp_path: Path, origin: str) -> Place:
    """Where a server on each database in turn can be started, and started again at the same address."""
    url = "" if request.param == "sqlite" else request.getfixturevalue("postgresql_url")
    return place_for(tmp_path, url, allowed_origins=origin, port=str(free_port()))


@pytest.fixture
def either_api(either_place: Place) -> Iterator[Api]:
    """A server without a worker: nothing moves but what a request does."""
    with either_place.server("--no-worker") as server:
        yield Api(either_place, server)


@pytest.fixture
def place(tmp_path: Path, origin: str) -> Place:
    """The same on SQLite alone, for what no database makes a difference to."""
    return place_for(tmp_path, allowed_origins=origin, port=str(free_port()))


@pytest.fixture
def api(place: Place) -> Iterator[Api]:
    """A server on SQLite without a worker."""
    with place.server("--no-worker") as server:
        yield Api(place, server)


def free_port() -> int:
    """Return a port that nobody listens on."""
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])
