"""An application of a user: one kind that says when it has begun and then takes very long, one that is done at once."""

import asyncio
from pathlib import Path

from longtake import Done, Job, JobKind, Outcome
from longtake.server.application import Application


def register(application: Application) -> None:
    """Declare the kinds."""
    application.add(kinds=[JobKind("slow", slow, time_limit=600), JobKind("quick", quick)])


async def slow(job: Job) -> Outcome:
    """Leave a sign, then wait."""
    await asyncio.to_thread(Path(job.args["sign"]).touch)
    await asyncio.sleep(300)
    return Done()


async def quick(_job: Job) -> Outcome:
    """Nothing to do."""
    return Done()
