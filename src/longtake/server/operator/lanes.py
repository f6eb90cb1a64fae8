"""Actions on lanes, kinds, schedules and workers."""

from typing import Annotated, Any

from pydantic import Field

from longtake.db import Transaction
from longtake.engine.control import pause_kind
from longtake.engine.engine import Engine
from longtake.engine.lane_store import all_lanes, pause_lane, resume_lane, set_lane
from longtake.engine.lanes import Lane
from longtake.engine.queries import list_kinds, list_lanes, list_schedules, list_workers
from longtake.engine.schedules import pause_schedule, run_schedule
from longtake.server.errors import InvalidActionArgument
from longtake.server.operator.arguments import KEEP, Name, Names, Sentence

Count = Annotated[int, Field(ge=1, le=1_000_000)]
Seconds = Annotated[float, Field(gt=0, le=86_400 * 365, allow_inf_nan=False)]


def lanes_list(tx: Transaction, engine: Engine) -> dict[str, Any]:
    """List lanes with their limits, and the waiting and running jobs in each."""
    return {"lanes": list_lanes(tx, engine)}


def lanes_set(
    tx: Transaction,
    _engine: Engine,
    *,
    name: Name,
    max_running: Count | None = KEEP,
    rate_count: Count | None = KEEP,
    rate_seconds: Seconds | None = KEEP,
    burst: Count = KEEP,
    spacing_seconds: Seconds | None = KEEP,
) -> dict[str, Any]:
    """Create a lane or change its limits; a limit that you leave out stays, null removes it."""
    now = next((view.lane for view in all_lanes(tx) if view.lane.name == name), Lane(name))
    count, seconds = now.rate or (None, None)
    count = count if rate_count is KEEP else rate_count
    seconds = seconds if rate_seconds is KEEP else rate_seconds
    if (count is None) != (seconds is None):
        raise InvalidActionArgument(
            "lanes.set: rate_count and rate_seconds belong together; give both, or null for both."
        )
    rate = None if count is None or seconds is None else (count, seconds)
    kept_burst = now.burst if burst is KEEP else burst
    if burst is KEEP and (rate is None or kept_burst > rate[0]):
        # A burst that no longer fits the rate was not what the operator asked about.
        kept_burst = 1 if rate is None else rate[0]
    changed = Lane(
        name,
        now.max_running if max_running is KEEP else max_running,
        rate,
        kept_burst,
        now.spacing if spacing_seconds is KEEP else spacing_seconds,
    )
    set_lane(tx, changed)
    return {
        "name": name,
        "max_running": changed.max_running,
        "rate_count": count,
        "rate_seconds": seconds,
        "burst": changed.burst,
        "spacing_seconds": changed.spacing,
    }


def lanes_pause(tx: Transaction, _engine: Engine, *, names: Names, reason: Sentence | None = None) -> dict[str, Any]:
    """Stop the lanes from starting jobs; running jobs continue."""
    for name in names:
        pause_lane(tx, name, reason)
    return {"paused": names}


def lanes_resume(tx: Transaction, _engine: Engine, *, names: Names) -> dict[str, Any]:
    """Let the lanes start jobs again, even if a provider asked Longtake to wait."""
    for name in names:
        resume_lane(tx, name)
    return {"resumed": names}


def kinds_list(tx: Transaction, engine: Engine) -> dict[str, Any]:
    """List job kinds with the waiting and running jobs of each."""
    return {"kinds": list_kinds(tx, engine)}


def kinds_pause(tx: Transaction, _engine: Engine, *, names: Names) -> dict[str, Any]:
    """Stop jobs of these kinds from starting; running jobs continue."""
    for name in names:
        pause_kind(tx, name, paused=True)
    return {"paused": names}


def kinds_resume(tx: Transaction, _engine: Engine, *, names: Names) -> dict[str, Any]:
    """Let jobs of these kinds start again."""
    for name in names:
        pause_kind(tx, name, paused=False)
    return {"resumed": names}


def schedules_list(tx: Transaction, _engine: Engine) -> dict[str, Any]:
    """List schedules with their last and next run times."""
    return {"schedules": list_schedules(tx)}


def schedules_run(tx: Transaction, engine: Engine, *, name: Name) -> dict[str, Any]:
    """Enqueue a schedule's job now, as an extra run; `created` is false if one is already waiting or running."""
    job = run_schedule(tx, engine, name)
    return {"schedule": name, "job_id": job.id, "created": job.created}


def schedules_pause(tx: Transaction, _engine: Engine, *, names: Names) -> dict[str, Any]:
    """Pause schedules; jobs that they already enqueued continue."""
    for name in names:
        pause_schedule(tx, name, paused=True)
    return {"paused": names}


def schedules_resume(tx: Transaction, _engine: Engine, *, names: Names) -> dict[str, Any]:
    """Resume schedules; one that became due while it was paused runs once."""
    for name in names:
        pause_schedule(tx, name, paused=False)
    return {"resumed": names}


def workers_list(tx: Transaction, engine: Engine) -> dict[str, Any]:
    """List workers with their running jobs, the time left on their leases, and whether they are alive."""
    return {"workers": list_workers(tx, engine)}
