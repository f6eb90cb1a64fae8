"""A kill test of generation: tasks come in, processes are killed with -9, the provider misbehaves; all is compared.

The sandbox is the outside world: it is not killed, and its log says what was really asked of it and paid for.
"""

# ruff: noqa: T201 - shown by pytest when the proof fails
from __future__ import annotations

import asyncio
import random
import time
from collections import Counter
from typing import TYPE_CHECKING, Any

from longtake import Lane, open_database
from longtake.engine.lane_store import set_lane
from longtake.services.credits import grant
from proofs.faults.generation_callers import USERS, Callers, Wish, make_wishes
from proofs.faults.generation_processes import Processes
from proofs.faults.generation_reckoning import reckon
from proofs.faults.generation_story import CREDITS, Story
from tests.outside import SQLITE, plain_sql
from tests.sandbox_process import SandboxProcess, running_sandbox

if TYPE_CHECKING:
    from pathlib import Path

    from longtake import Transaction
    from proofs.faults.generation_processes import Killable

LANES = ("kie.submit", "kie.query", "gemini.submit", "gemini.query")
#: Wishes come in during this part of the time; the rest of it kills what they have become.
SUBMITTING_PART = 0.9
#: The longest single call has this much after each start.
CALL_SECONDS = 2.5
#: A job that was there at three kills, the last time alone, would rightly be taken for what kills workers: nobody is
#: killed while one runs alone, for at most so long.
ALONE = "SELECT id FROM jobs WHERE state = 'running' AND alone"
ALONE_SECONDS = 60.0
#: And then the mean until the next kill.
KILL_SECONDS = {"sqlite": 6.0, "postgresql": 10.0}
#: This part of all starts is cut off within so many seconds.
STARTING_PART, STARTING_SECONDS = 0.15, 3.0
SECONDS = {"image": 1.0, "video": 4.0, "gemini-3.1-flash-image": 0.3}
#: After the last fault: a callback that nobody heard is tried for eight seconds more.
CALLBACK_SECONDS = 12.0
DRAIN_SECONDS = 240.0
LOOK_SECONDS = 2.0
WATCH_SECONDS = 3.0
WATCHED_LOOKS = 6


class GenerationKills:
    """One database and one sandbox, and everything that happens between them."""

    def __init__(self, story: Story, seconds: float, tasks: int, seed: int) -> None:
        self.story = story
        self._seconds = seconds
        self._tasks = tasks
        self._seed = seed

    async def run(self) -> None:
        """Let it all happen, and end it in order."""
        story = self.story
        processes = story.processes
        processes.start()
        for one in processes.all:
            await one.until_it_works()
        conversations = {user: await story.callers.open_conversation(user) for user in USERS}
        story.wishes = make_wishes(self._tasks, conversations, random.Random(self._seed))
        add_faults(story.sandbox)
        until = time.monotonic() + self._seconds
        async with asyncio.TaskGroup() as group:
            for one in processes.all:
                group.create_task(self._kill_again_and_again(one, until))
            for wish in story.wishes:
                group.create_task(self._wish(wish))
        story.sandbox.clear_faults()
        await self._drain()

    async def _kill_again_and_again(self, one: Killable, until: float) -> None:
        dice = random.Random(f"{self._seed} {one.name}")
        mean = KILL_SECONDS["sqlite" if self.story.database_url.startswith(SQLITE) else "postgresql"]
        while time.monotonic() < until:
            # Some are killed while they start. Where starts are slow all would be, if nobody waited for the others.
            if dice.random() < STARTING_PART:
                await asyncio.sleep(dice.uniform(0, STARTING_SECONDS))
            else:
                await one.until_it_works()
                spared = CALL_SECONDS + dice.expovariate(1 / mean)
                await asyncio.sleep(min(spared, until - time.monotonic()))
            await self._until_nothing_runs_alone()
            one.kill()
            one.start()

    async def _until_nothing_runs_alone(self) -> None:
        until = time.monotonic() + ALONE_SECONDS
        while time.monotonic() < until and self._sql(ALONE):  # noqa: ASYNC110 - a row tells nobody
            await asyncio.sleep(0.1)

    async def _wish(self, wish: Wish) -> None:
        callers = self.story.callers
        dice = random.Random(f"{self._seed} {wish.number}")
        await asyncio.sleep(dice.uniform(0, self._seconds * SUBMITTING_PART))
        await callers.submit(wish)
        if wish.cancelled_after is not None:
            await asyncio.sleep(wish.cancelled_after)
            await callers.cancel(wish)
        if dice.random() < 0.1:
            # The same key again, whoever answers now: it is the same task.
            await callers.submit(wish)
        for _ in range(WATCHED_LOOKS if wish.watched else 0):
            await callers.look(wish)
            await asyncio.sleep(WATCH_SECONDS)

    # -- the end -------------------------------------------------------------------------------------------------

    async def _drain(self) -> None:
        """Do no more harm, and wait until nothing is left to do."""
        began_at = time.monotonic()
        while left := self._left():
            late = time.monotonic() - began_at
            if late > DRAIN_SECONDS:
                self.story.stuck = left
                return
            if late > CALLBACK_SECONDS:
                self._let_deadlines_pass()
            print(f"  {late:4.0f} s later: {dict(Counter(one.split()[0] for one in left))}", flush=True)
            await self._hurry()
            await asyncio.sleep(LOOK_SECONDS)

    def _left(self) -> list[str]:
        """Return what is still to be done: unfinished tasks, jobs about tasks and files, and missing copies."""
        unfinished = "SELECT id, status FROM tasks WHERE status IN ('pending', 'running')"
        jobs = "SELECT key, kind FROM jobs WHERE subject IS NOT NULL"
        copies = "SELECT id, mirror_state FROM assets WHERE mirror_state <> 'completed'"
        return [f"{row[1]} {row[0]}" for one in (unfinished, jobs, copies) for row in self._sql(one)]

    async def _hurry(self) -> None:
        """Look at every unfinished task, and have copies that failed tried now, as users who watch would."""
        callers = self.story.callers
        by_id = {wish.id: wish for wish in self.story.wishes}
        unfinished = self._sql("SELECT id FROM tasks WHERE status IN ('pending', 'running')")
        await asyncio.gather(*(callers.look(by_id[str(row[0])]) for row in unfinished))
        missing = self._sql("SELECT DISTINCT task_id, user_id FROM assets WHERE mirror_state <> 'completed'")
        await asyncio.gather(*(callers.save_again(row[1], str(row[0])) for row in missing))

    def _let_deadlines_pass(self) -> None:
        """Let the deadline of lost submits pass, as ten or thirty minutes would; a sweep then ends them.

        Their provider has called back, or never will; nothing else can be heard of them.
        """
        lost = (
            "FROM tasks WHERE status = 'pending' AND needs_review AND NOT EXISTS (SELECT 1 FROM jobs WHERE subject = "
        )
        identifier = "tasks.id" if self.story.database_url.startswith(SQLITE) else "tasks.id::text"
        found = {str(row[0]) for row in self._sql(f"SELECT id {lost}{identifier})")}
        for task_id in sorted(found - self.story.given_up):
            self._sql("UPDATE tasks SET deadline_at = created_at WHERE id = ? AND needs_review", (task_id,))
        self.story.given_up |= found

    def _sql(self, statement: str, parameters: tuple[str, ...] = ()) -> list[tuple[Any, ...]]:
        return plain_sql(self.story.database_url, statement, parameters)


def add_faults(sandbox: SandboxProcess) -> None:
    """Let the provider misbehave in every way that callers and tasks must not notice. By chance, so that all ends."""
    sandbox.faults("status", status=503, route="submit", probability=0.06)
    sandbox.faults("status", status=429, retry_after=2, route="submit", probability=0.02)
    sandbox.faults("accept_then_drop", route="submit", probability=0.03)
    sandbox.faults("status", status=504, body="html", after=True, route="submit", probability=0.01)
    sandbox.faults("delay", delay=1.0, route="submit", probability=0.04)
    sandbox.faults("status", status=503, route="query", probability=0.08)
    sandbox.faults("status", status=429, retry_after=2, route="query", probability=0.03)
    sandbox.faults("drop", route="query", probability=0.03)
    sandbox.faults("html", route="query", probability=0.02)
    sandbox.faults("delay", delay=1.0, route="query", probability=0.03)
    sandbox.faults("unknown_state", value="pondering", route="query", probability=0.02)
    sandbox.faults("backwards", route="query", probability=0.1)
    sandbox.faults("truncated", route="file", probability=0.06)
    sandbox.faults("status", status=404, route="file", probability=0.06)
    sandbox.faults("html", route="file", probability=0.02)
    sandbox.faults("duplicate", route="callback", probability=0.15)
    sandbox.faults("early", route="callback", probability=0.05)
    sandbox.faults("forged", route="callback", probability=0.05)
    sandbox.faults("drop", route="callback", probability=0.05)


def prepare(database_url: str) -> None:
    """Let users have something to spend, and lanes as an operator sets them: by number, not by time.

    Else the lanes would slow down at each 429, and most tasks would still wait for their turn when the killing is over.
    """

    def write(tx: Transaction) -> None:
        for user in USERS:
            grant(tx, user_id=user, amount=CREDITS, reason="kill test", made_by="test")
        for name in LANES:
            set_lane(tx, Lane(name, max_running=20))

    database = open_database(database_url)
    try:
        database.run_blocking(write)
    finally:
        database.close()


async def kill_generation(folder: Path, database_url: str, seconds: float, tasks: int, seed: int) -> list[str]:
    """Do it all on one database; return what is wrong in the end, after printing what happened."""
    prepare(database_url)
    with running_sandbox(seconds=SECONDS, spread=0.5, seed=seed % 2**31) as sandbox:
        processes = Processes(folder, database_url, sandbox)
        callers = Callers(processes.url)
        story = Story(database_url, processes, sandbox, callers)
        try:
            await GenerationKills(story, seconds, tasks, seed).run()
            return reckon(story)
        finally:
            await callers.close()
            processes.end()
