"""A studio: everything generation is made of, in this process, against a real database and a real sandbox.

Time stands still, and jobs run when a test says so: ``step`` claims what is due, runs it and applies its outcome, as a
worker does.
"""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

from sqlalchemy import select, text

from longtake.capabilities.generation.service import Generation
from longtake.capabilities.generation.submissions import check_request
from longtake.capabilities.generation.tables import Task, submissions, task_from, tasks
from longtake.engine.lane_store import set_lane
from longtake.engine.lanes import Lane
from longtake.engine.schedules import fire_due
from longtake.http.idempotency import keyed
from longtake.server.application import Application
from longtake.services.credits import balance, grant
from longtake.services.live.feed import Feed
from longtake.settings import Settings
from tests.engine.stage import claim, finish, hire

if TYPE_CHECKING:
    from pathlib import Path

    from longtake import Database, Job, Transaction
    from longtake.http.idempotency import Answer
    from tests.databases import StoppedClock
    from tests.sandbox_process import SandboxProcess

USER = "ada"
CREDITS = 10_000


class Studio:
    """Submits, runs jobs by hand, and looks at what came of it."""

    def __init__(
        self, database: Database, clock: StoppedClock, sandbox: SandboxProcess, folder: Path, **settings: Any
    ) -> None:
        self.database = database
        self.clock = clock
        self.sandbox = sandbox
        usual: dict[str, Any] = {
            "data_dir": folder,
            "storage_url": f"file:{folder}/objects",
            "allow_addresses": "127.0.0.1/32",
            "kie_api_key": sandbox.key,
            "kie_base_url": sandbox.kie_url,
            "gemini_api_key": sandbox.key,
            "gemini_base_url": sandbox.gemini_url,
            "public_url": "http://127.0.0.1:9",
        }
        self.settings = Settings(**(usual | settings))
        self.application = Application(self.settings, database, clock=clock, source=random.Random(1))
        self.engine = self.application.build()
        self.context = self.application.context
        self.generation = Generation(self.context, self.engine)
        self.watch, self.feed = self.generation.views.watch, self.context.get(Feed)
        self.worker = ""

    async def start(self) -> None:
        await self.engine.start()
        await self.application.keys.refresh()
        await self.database.run(self._open_lanes)
        self.worker = await self.database.run(hire, incarnation=self.database.incarnation)
        await self.grant(USER, CREDITS)

    async def close(self) -> None:
        await self.application.close()

    def _open_lanes(self, tx: Transaction) -> None:
        """Limits are tested elsewhere; here every due job is claimed at once."""
        for name in self.engine.lanes:
            set_lane(tx, Lane(name))

    async def grant(self, user: str, amount: int) -> None:
        def write(tx: Transaction) -> None:
            grant(tx, user_id=user, amount=amount, reason="test", made_by="test")

        await self.database.run(write)

    async def submit(self, prompt: str = "a red fox", *, key: str | None = None, **wanted: Any) -> str:
        """Ask for an image, or whatever the model makes; return the task's id."""
        answer = await self.ask(prompt, key=key, **wanted)
        return str(answer.body["id"])

    async def ask(
        self,
        prompt: str = "a red fox",
        *,
        model: str = "nano-banana",
        user: str = USER,
        key: str | None = None,
        conversation: str | None = None,
        references: list[str] | None = None,
        **parameters: Any,
    ) -> Answer:
        found = self.generation.offered.models[model]
        request = check_request(found, prompt, parameters, references or [], conversation)
        wanted = keyed(user, "test", key, {"prompt": prompt, "model": model, **parameters})
        return await self.generation.submit(user, request, wanted, "request-1")

    async def step(self) -> list[str]:
        """Run every due job once, those of schedules among them; return their kinds."""
        await self.database.run(fire_due, self.engine)
        jobs = await self.database.run(claim, self.engine, self.worker)
        for job in jobs:
            await self.run(job)
        return [job.kind for job in jobs]

    async def run(self, job: Job) -> bool:
        """Run a claimed job and apply its outcome; say whether it was still ours."""
        outcome = await self.engine.kinds[job.kind].handler(job)
        return await self.database.run(finish, self.engine, job, outcome, self.worker)

    async def claim(self) -> list[Job]:
        """Claim what is due without running it: a worker that dies right afterwards does the same."""
        return await self.database.run(claim, self.engine, self.worker)

    async def follow(self, task_id: str, *, polls: int = 20) -> Task:
        """Work and let time pass until the task has ended."""
        task = await self.task(task_id)
        for _ in range(polls):
            await self.step()
            task = await self.task(task_id)
            if not task.unfinished:
                return task
            self.clock.advance(31)
        raise AssertionError(f"still {task.status} after {polls} rounds: {task}")

    async def task(self, task_id: str) -> Task:
        def read(tx: Transaction) -> Task:
            return task_from(tx.execute(select(tasks).where(tasks.c.id == task_id)).one())

        return await self.database.read(read)

    async def facts(self, task_id: str) -> list[str]:
        """Return what is on record about the task's submits, oldest first."""

        def read(tx: Transaction) -> list[str]:
            mine = select(submissions.c.fact).where(submissions.c.task_id == task_id).order_by(submissions.c.number)
            return list(tx.execute(mine).scalars())

        return await self.database.read(read)

    async def balance(self, user: str = USER) -> tuple[int, int]:
        """Return what is available and what is held."""
        found = await self.database.read(balance, user)
        return found.available, found.held

    async def sql(self, statement: str, **values: Any) -> list[tuple[Any, ...]]:
        """Look with plain SQL."""

        def read(tx: Transaction) -> list[tuple[Any, ...]]:
            return [tuple(row) for row in tx.execute(text(statement), values)]

        return await self.database.read(read)

    async def events(self, task_id: str) -> list[str]:
        rows = await self.sql("SELECT type FROM events WHERE subject = :task ORDER BY sequence", task=task_id)
        return [row[0] for row in rows]

    async def alerts(self) -> list[tuple[str, str]]:
        """Return code and state of every alert."""
        return [(row[0], row[1]) for row in await self.sql("SELECT code, state FROM alerts ORDER BY code, subject")]

    async def jobs(self) -> list[str]:
        """Return the kinds of all live jobs."""
        return [row[0] for row in await self.sql("SELECT kind FROM jobs ORDER BY kind")]
