"""One server for the tests of a module: without a worker, so that nothing moves but what a request does."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.api.stage import FOR_RUNS, Api, place_for

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.databases import PostgresqlServer


@pytest.fixture(scope="module")
def still_api(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Api]:
    """A server on SQLite."""
    place = place_for(tmp_path_factory.mktemp("api"))
    with place.server_here(with_worker=False) as server:
        yield Api(place, server)


@pytest.fixture(scope="module", params=["sqlite", "postgresql"])
def either_api(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Api]:
    """A server on each database in turn."""
    place = place_for(tmp_path_factory.mktemp("api"), **FOR_RUNS)
    if request.param == "sqlite":
        with place.server_here(with_worker=False) as server:
            yield Api(place, server)
        return
    databases: PostgresqlServer = request.getfixturevalue("postgresql_server")
    url = databases.new_database()
    try:
        place = place_for(tmp_path_factory.mktemp("api"), url, **FOR_RUNS)
        with place.server_here(with_worker=False) as server:
            yield Api(place, server)
    finally:
        databases.drop_database(url)
