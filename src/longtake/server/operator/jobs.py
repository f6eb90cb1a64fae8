"""Actions on jobs."""

from collections.abc import Callable
from typing import Any

from longtake.db import Transaction
from longtake.engine.control import request_cancel, retry
from longtake.engine.engine import Engine
from longtake.engine.errors import EngineError
from longtake.engine.queries import JobFilter, list_jobs, show_job
from longtake.errors import LongtakeError, NotFound, StateConflict
from longtake.server.operator.arguments import Identifier, Identifiers, JobState, Limit, Name


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

    def stop(job_id: str) -> str:
        return request_cancel(tx, engine, job_id)

    return _each(ids, stop)


def _each(ids: list[str], change: Callable[[str], str]) -> dict[str, Any]:
    """Change each job; a refused one does not stop the others."""
    changed: list[dict[str, str]] = []
    refused: list[dict[str, str]] = []
    for job_id in dict.fromkeys(ids):
        try:
            changed.append({"id": job_id, "state": change(job_id)})
        except (EngineError, NotFound, StateConflict) as error:
            refused.append({"id": job_id, **_told(error)})
    return {"changed": changed, "refused": refused}


def _told(error: LongtakeError) -> dict[str, str]:
    return {"code": error.code, "message": error.message, "hint": error.hint}
