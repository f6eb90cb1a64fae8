"""How images fare: the views in SQL, the operators' action, and the command."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlalchemy import text

from longtake.capabilities.scenes.tables import scene_figures
from tests.operators import perform
from tests.service.processes import Place

if TYPE_CHECKING:
    from pathlib import Path

    from longtake import Transaction
    from tests.scenes.stage import SceneStudio

NOTHING = {"failure_rate": None, "mean_seconds": None, "mean_provider_ms": None, "mean_storage_ms": None}


async def test_without_images_there_is_nothing_to_judge(studio: SceneStudio) -> None:
    found = await studio.database.read(scene_figures)
    assert found["queue"] == dict.fromkeys(("queued", "processing", "completed", "failed", "cancelled"), 0)
    assert found["last_24_hours"] == NOTHING | {"completed": 0, "failed": 0, "cancelled": 0, "mean_total_ms": None}


async def test_figures_are_those_of_the_rows(studio: SceneStudio) -> None:
    run_id = await studio.make(5, advance=True)
    await studio.finish(run_id)
    await studio.make(3, advance=True)
    # The views go by the database's own clock, which no test stops.
    if studio.database.dialect == "sqlite":
        start, end = (f"strftime('%Y-%m-%d %H:%M:%f000', 'now', '-{ago} seconds')" for ago in (20, 10))
    else:
        start, end = (f"clock_timestamp() - interval '{ago} seconds'" for ago in (20, 10))

    def times(tx: Transaction) -> None:
        changes = f"started_at = {start}, completed_at = {end}, provider_ms = 8000, storage_ms = 1500, total_ms = 9600"
        tx.execute(text(f"UPDATE image_jobs SET {changes} WHERE status = 'completed'"))
        tx.execute(text("UPDATE image_jobs SET status = 'failed' WHERE status = 'completed' AND position = 5"))

    await studio.database.run(times)
    found = await perform(studio.engine, "runs.figures", {})
    assert found["queue"] == {"queued": 3, "processing": 0, "completed": 4, "failed": 1, "cancelled": 0}
    lately = found["last_24_hours"]
    assert (lately["completed"], lately["failed"], lately["failure_rate"]) == (4, 1, 0.2)
    assert abs(lately["mean_seconds"] - 10.0) < 0.05
    assert (lately["mean_provider_ms"], lately["mean_storage_ms"], lately["mean_total_ms"]) == (8000, 1500, 9600)


def test_the_command_shows_them(tmp_path: Path) -> None:
    place = Place(tmp_path)
    assert place.run("migrate", "up").returncode == 0
    shown = place.run("runs", "figures")
    assert shown.returncode == 0, shown.stderr
    assert "queued images" in shown.stdout
    assert "failure rate" in shown.stdout
