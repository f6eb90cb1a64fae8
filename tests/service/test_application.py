"""An application of a user: what it may declare and when, and a server that runs none of its jobs."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING, Any

import pytest

from longtake import Engine, open_database
from longtake.server.application import Application
from longtake.server.errors import InvalidApplication
from longtake.server.open_database import migrate_service
from longtake.settings import Settings
from tests.service import slow_app
from tests.service.processes import Place
from tests.service.slow_jobs import APP, ROOT, enqueue

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def place(tmp_path: Path) -> Place:
    """A place whose database holds one slow job."""
    place = Place(tmp_path, {"PYTHONPATH": str(ROOT)})
    url = f"sqlite:///{place.data}/longtake.db"
    migrate_service(url)
    enqueue(url, place)
    return place


def job(place: Place) -> Any:
    with closing(sqlite3.connect(place.data / "longtake.db")) as connection:
        return connection.execute("SELECT state, attempt FROM jobs WHERE kind = 'slow'").fetchone()


def test_a_server_without_a_worker_runs_nothing(place: Place) -> None:
    place.settings["LONGTAKE_APP"] = APP[1]
    with place.server_here(with_worker=False) as server:
        assert server.operate("workers.list").json == {"workers": []}
        assert job(place) == ("ready", 0)
    assert job(place) == ("ready", 0)


def test_what_is_declared_too_late_or_used_too_early_is_refused(place: Place) -> None:
    database = open_database(f"sqlite:///{place.data}/longtake.db")
    try:
        application = Application(Settings(data_dir=place.data), database)
        with pytest.raises(InvalidApplication, match="only after all has been declared"):
            _ = application.engine
        assert isinstance(application.build(), Engine)
        with pytest.raises(InvalidApplication, match="not later"):
            slow_app.register(application)
    finally:
        database.close()
