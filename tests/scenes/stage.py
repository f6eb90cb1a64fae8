"""A studio for runs: everything scenes are made of, against a real database and a real sandbox, with time standing."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from longtake.capabilities.scenes.runs import check_run
from longtake.capabilities.scenes.service import Scenes
from longtake.capabilities.scenes.tables import IMAGE
from longtake.engine.lane_store import lane_view, set_lane
from longtake.engine.lanes import Lane
from tests.credits.stage import audit
from tests.generation.studio import USER, Studio

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from longtake import Database, Job
    from longtake.engine.lane_store import LaneView
    from tests.databases import StoppedClock
    from tests.sandbox_process import SandboxProcess

LANE = "gemini.scenes"
PRICE = 5
MODEL = "gemini-flash-image"


class SceneStudio(Studio):
    """Makes runs, runs their jobs by hand, and looks at what came of it."""

    def __init__(self, database: Database, clock: StoppedClock, sandbox: SandboxProcess, folder: Path) -> None:
        super().__init__(database, clock, sandbox, folder)
        self.scenes = Scenes(self.context, self.engine)

    async def make(self, count: int = 3, *, advance: bool = False, user: str = USER, **wanted: Any) -> str:
        """Make a run; return its id."""
        prompts = wanted.pop("prompts", None) or [f"scene {number} of a story" for number in range(1, count + 1)]
        told: dict[str, Any] = {"title": "A story", "model": None, "parameters": {}} | wanted
        new = check_run(self.scenes.models, user, prompts=prompts, request_id="request-1", **told)
        answer = await self.scenes.create(new, None, advance=advance)
        return str(answer.body["id"])

    async def advance(self, run_id: str, *, failed: bool = False, user: str = USER) -> dict[str, Any]:
        return await self.scenes.advance(user, run_id, "request-2", failed=failed)

    async def show(self, run_id: str, user: str = USER) -> dict[str, Any]:
        return await self.scenes.show(user, run_id)

    async def states(self, run_id: str) -> list[str]:
        return [scene["state"] for scene in (await self.show(run_id))["scenes"]]

    async def finish(self, run_id: str, rounds: int = 30) -> dict[str, Any]:
        """Work and let time pass until nothing of the run is under way."""
        run = await self.show(run_id)
        for _ in range(rounds):
            await self.step()
            run = await self.show(run_id)
            if run["status"] != "generating":
                return run
            self.clock.advance(31)
        raise AssertionError(f"still under way after {rounds} rounds: {run}")

    async def images(self) -> list[Job]:
        """Claim the image jobs that are due."""
        return [job for job in await self.claim() if job.kind == IMAGE]

    async def lane(self) -> LaneView:
        return await self.database.read(lane_view, LANE)

    async def limit_lane(self, **limits: Any) -> None:
        await self.database.run(set_lane, Lane(LANE, **limits))

    async def told(self, run_id: str) -> list[tuple[str, Any]]:
        """Return the run's events with the scene that each is about."""
        rows = await self.sql("SELECT type, data FROM events WHERE subject = :run ORDER BY sequence", run=run_id)
        return [(kind, _scene_of(data)) for kind, data in rows]

    async def audit(self) -> Sequence[Any]:
        return await self.database.read(audit)


def _scene_of(data: Any) -> Any:
    found = json.loads(data) if isinstance(data, str) else data
    return (found or {}).get("scene")
