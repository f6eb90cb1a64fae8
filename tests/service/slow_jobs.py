"""A slow job in a place: enqueued by hand, with a sign that shows when it has begun."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from longtake import Transaction, open_database
from longtake.server.application import Application
from longtake.settings import Settings
from tests.service import slow_app

if TYPE_CHECKING:
    from tests.service.processes import Place

APP = ("--app", "tests.service.slow_app:register")
#: So that a process elsewhere finds the application.
ROOT = Path(__file__).parent.parent.parent


def enqueue(url: str, place: Place, kind: str = "slow") -> str:
    """Enqueue one job directly in the database; return its id."""
    database = open_database(url)
    try:
        engine = Application(Settings(data_dir=place.data), database).build(slow_app.register)

        def write(tx: Transaction) -> str:
            engine.declare(tx)
            return engine.enqueue(tx, kind, {"sign": str(sign(place))}).id

        return database.run_blocking(write)
    finally:
        database.close()


def sign(place: Place) -> Path:
    """Return the file that is there once the job has begun."""
    return place.folder / "begun"
