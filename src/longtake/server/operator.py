"""Operators' actions on the engine: jobs, lanes, kinds, schedules, workers; and on alerts."""

from collections.abc import Callable
from importlib.metadata import version
from typing import Annotated, Any, Final, Literal

from pydantic import Field
from sqlalchemy import func, select

from longtake.actions import Action, Identifier, Identifiers, Limit, Name, Names, Operator, Sentence
from longtake.db import Transaction
from longtake.engine.control import pause_kind, request_cancel, retry
from longtake.engine.engine import Engine
from longtake.engine.errors import EngineError
from longtake.engine.lane_store import all_lanes, pause_lane, resume_lane, set_lane
from longtake.engine.lanes import Lane
from longtake.engine.queries import (
    JobFilter,
    count_waiting,
    list_jobs,
    list_kinds,
    list_lanes,
    list_schedules,
    list_workers,
    show_job,
)
from longtake.engine.schedules import pause_schedule, run_schedule
from longtake.errors import InvalidActionArgument, NotFound, StateConflict
from longtake.services.alerts import acknowledge_alert, alerts, list_alerts, resolve_alert_by_id

JobState = Literal["ready", "running", "done", "failed", "cancelled"]
AlertState = Literal["open", "acknowledged", "resolved"]
Count = Annotated[int, Field(ge=1, le=1_000_000)]
Seconds = Annotated[float, Field(gt=0, le=86_400 * 365, allow_inf_nan=False)]
#: Stands for a limit that was not mentioned: unlike None, which takes the limit away, it changes nothing.
KEEP: Final[Any] = object()


def health(tx: Transaction, engine: Engine) -> dict[str, Any]:
    """Show an overview: waiting and running jobs, live workers, paused lanes and unresolved alerts."""
    live = select(alerts.c.severity, func.count().label("number")).where(alerts.c.state != "resolved")
    by_severity = {row.severity: row.number for row in tx.execute(live.group_by(alerts.c.severity))}
    return {
        "version": version("longtake"),
        "database": tx.dialect,
        "jobs": count_waiting(tx, engine),
        "workers": sum(worker["alive"] for worker in list_workers(tx, engine)),
        "paused_lanes": [lane["name"] for lane in list_lanes(tx, engine) if lane["paused"]],
        "alerts": by_severity,
    }


def jobs_list(
    tx: Transaction,
    _engine: Engine,
    *,
    state: JobState | None = None,
    kind: Name | None = None,
    lane: Name | None = None,
    error_code: Name | None = None,
    subject: Name | None = None,
    request_id: Name | None = None,
    before: Identifier | None = None,
    limit: Limit = 50,
) -> dict[str, Any]:
    """List jobs, newest first; pass `next` as `before` to get the next page."""
    which = JobFilter(state, kind, lane, error_code, subject, request_id)
    rows, cursor = list_jobs(tx, which, before=before, limit=limit)
    return {"jobs": rows, "next": cursor}


def jobs_show(tx: Transaction, _engine: Engine, *, id: Identifier) -> dict[str, Any]:  # noqa: A002 - the row's name
    """Show one job with its attempts, its worker and its events."""
    return show_job(tx, id)


def jobs_retry(tx: Transaction, _engine: Engine, *, ids: Identifiers) -> dict[str, Any]:
    """Run failed or cancelled jobs again, with their full number of attempts."""

    def again(job_id: str) -> str:
        retry(tx, job_id)
        return "ready"

    return _each(ids, again)


def jobs_cancel(tx: Transaction, engine: Engine, *, ids: Identifiers) -> dict[str, Any]:
    """Cancel waiting or running jobs; `requested` means that the job's worker has yet to stop it."""
    return _each(ids, lambda job_id: request_cancel(tx, engine, job_id))


def _each_named(done: str, names: list[str], change: Callable[[str], object]) -> dict[str, Any]:
    """Change each; a refused one takes the others back."""
    for name in names:
        change(name)
    return {done: names}


def _each(ids: list[str], change: Callable[[str], str]) -> dict[str, Any]:
    """Change each job; a refused one does not stop the others."""
    changed: list[dict[str, str]] = []
    refused: list[dict[str, str]] = []
    for job_id in dict.fromkeys(ids):
        try:
            changed.append({"id": job_id, "state": change(job_id)})
        except (EngineError, NotFound, StateConflict) as error:
            refused.append({"id": job_id, "code": error.code, "message": error.message, "hint": error.hint})
    return {"changed": changed, "refused": refused}


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
    return _each_named("paused", names, lambda name: pause_lane(tx, name, reason))


def lanes_resume(tx: Transaction, _engine: Engine, *, names: Names) -> dict[str, Any]:
    """Let the lanes start jobs again, even if a provider asked Longtake to wait."""
    return _each_named("resumed", names, lambda name: resume_lane(tx, name))


def kinds_list(tx: Transaction, engine: Engine) -> dict[str, Any]:
    """List job kinds with the waiting and running jobs of each."""
    return {"kinds": list_kinds(tx, engine)}


def kinds_pause(tx: Transaction, _engine: Engine, *, names: Names) -> dict[str, Any]:
    """Stop jobs of these kinds from starting; running jobs continue."""
    return _each_named("paused", names, lambda name: pause_kind(tx, name, paused=True))


def kinds_resume(tx: Transaction, _engine: Engine, *, names: Names) -> dict[str, Any]:
    """Let jobs of these kinds start again."""
    return _each_named("resumed", names, lambda name: pause_kind(tx, name, paused=False))


def schedules_list(tx: Transaction, _engine: Engine) -> dict[str, Any]:
    """List schedules with their last and next run times."""
    return {"schedules": list_schedules(tx)}


def schedules_run(tx: Transaction, engine: Engine, *, name: Name) -> dict[str, Any]:
    """Enqueue a schedule's job now, as an extra run; `created` is false if one is already waiting or running."""
    job = run_schedule(tx, engine, name)
    return {"schedule": name, "job_id": job.id, "created": job.created}


def schedules_pause(tx: Transaction, _engine: Engine, *, names: Names) -> dict[str, Any]:
    """Pause schedules; jobs that they already enqueued continue."""
    return _each_named("paused", names, lambda name: pause_schedule(tx, name, paused=True))


def schedules_resume(tx: Transaction, _engine: Engine, *, names: Names) -> dict[str, Any]:
    """Resume schedules; one that became due while it was paused runs once."""
    return _each_named("resumed", names, lambda name: pause_schedule(tx, name, paused=False))


def workers_list(tx: Transaction, engine: Engine) -> dict[str, Any]:
    """List workers with their running jobs, the time left on their leases, and whether they are alive."""
    return {"workers": list_workers(tx, engine)}


def alerts_list(
    tx: Transaction,
    _engine: Engine,
    *,
    state: AlertState | None = None,
    before: Identifier | None = None,
    limit: Limit = 100,
) -> dict[str, Any]:
    """List alerts, newest first; without `state`, only unresolved ones."""
    return {"alerts": list_alerts(tx, state, before=before, limit=limit)}


def alerts_acknowledge(tx: Transaction, _engine: Engine, *, ids: Identifiers, by: Name) -> dict[str, Any]:
    """Record who is handling alerts; they stay until they are resolved."""
    return _each_named("acknowledged", ids, lambda alert_id: acknowledge_alert(tx, alert_id, by))


def alerts_resolve(tx: Transaction, _engine: Engine, *, ids: Identifiers) -> dict[str, Any]:
    """Mark alerts as resolved; if the problem returns, it raises a new alert."""
    return _each_named("resolved", ids, lambda alert_id: resolve_alert_by_id(tx, alert_id))


OPERATOR = Operator(
    actions=[
        Action("health", health),
        Action("jobs.list", jobs_list),
        Action("jobs.show", jobs_show),
        Action("jobs.retry", jobs_retry, writes=True),
        Action("jobs.cancel", jobs_cancel, writes=True),
        Action("lanes.list", lanes_list),
        Action("lanes.set", lanes_set, writes=True),
        Action("lanes.pause", lanes_pause, writes=True),
        Action("lanes.resume", lanes_resume, writes=True),
        Action("kinds.list", kinds_list),
        Action("kinds.pause", kinds_pause, writes=True),
        Action("kinds.resume", kinds_resume, writes=True),
        Action("schedules.list", schedules_list),
        Action("schedules.run", schedules_run, writes=True),
        Action("schedules.pause", schedules_pause, writes=True),
        Action("schedules.resume", schedules_resume, writes=True),
        Action("workers.list", workers_list),
        Action("alerts.list", alerts_list),
        Action("alerts.acknowledge", alerts_acknowledge, writes=True),
        Action("alerts.resolve", alerts_resolve, writes=True),
    ]
)
