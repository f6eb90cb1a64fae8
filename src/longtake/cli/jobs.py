"""`longtake jobs list|show|retry|cancel`."""

from collections.abc import Mapping
from typing import Annotated, Any

import typer

from longtake.cli.operator_access import ask, operator
from longtake.terminal.commands import AsJson, Commands
from longtake.terminal.failures import REFUSED, print_error
from longtake.terminal.output import age, counted, print_facts, print_json, print_line, print_page, print_table
from longtake.terminal.progress import counting_bar

app = Commands()

Ids = Annotated[list[str], typer.Argument(metavar="ID", help="One or more job ids.")]
PAGE = 500


@app.command("list")
def list_jobs(
    state: Annotated[str | None, typer.Option(help="ready, running, done, failed or cancelled.")] = None,
    kind: Annotated[str | None, typer.Option(help="Only jobs of this kind.")] = None,
    lane: Annotated[str | None, typer.Option(help="Only jobs of this lane.")] = None,
    error_code: Annotated[str | None, typer.Option(help="Only jobs whose last error has this code.")] = None,
    subject: Annotated[str | None, typer.Option(help="Only jobs about this subject.")] = None,
    request_id: Annotated[str | None, typer.Option(help="Only jobs caused by this request.")] = None,
    before: Annotated[str | None, typer.Option(metavar="ID", help="Only jobs older than this one.")] = None,
    limit: Annotated[int, typer.Option(min=1, max=500, help="How many at most.")] = 50,
    as_json: AsJson = False,
) -> None:
    """List jobs, the newest first, waiting and ended ones together."""
    filters = {"state": state, "kind": kind, "lane": lane, "error_code": error_code, "subject": subject}
    found = ask("jobs.list", **filters, request_id=request_id, before=before, limit=limit)
    print_page(
        found,
        ("id", "kind", "state", "lane", "attempt", "when", "created", "subject", "error"),
        (
            (
                job["id"], job["kind"], job["state"], job["lane"], f"{job['attempt']}/{job['max_attempts']}",
                _when(job), age(job["created_at"]), job["subject"], (job["error"] or {}).get("code"),
            )
            for job in found["jobs"]
        ),
        nothing="No jobs match." if request_id or before or any(filters.values()) else "There are no jobs.",
        cut=("kind", "subject", "error"),
        spare=("subject", "lane", "created", "when"),
        as_json=as_json,
    )  # fmt: skip


@app.command()
def show(job_id: Annotated[str, typer.Argument(metavar="ID", help="The job's id.")], as_json: AsJson = False) -> None:
    """Show one job: its arguments and memo, every attempt, who runs it now, and its events."""
    found = ask("jobs.show", id=job_id)
    if as_json:
        print_json(found)
        return
    print_facts(found["job"] | {"attempt": f"{found['job']['attempt']} of {found['job']['max_attempts']}"})
    if found["worker"]:
        worker = found["worker"]
        print_line(
            f"\nRun by {worker['name']} ({worker['id']}), whose lease lasts {worker['lease_left_seconds']:.0f} s."
        )
    if found["attempts"]:
        print_line("")
        print_table(
            ("attempt", "outcome", "started", "ended", "error"),
            [
                (one["attempt"], one["outcome"], one["started_at"], one["ended_at"], _sentence(one["error"]))
                for one in found["attempts"]
            ],
            nothing="",
        )
    if found["events"]:
        print_line("")
        print_table(
            ("event", "at", "data"), [(one["type"], one["at"], one["data"]) for one in found["events"]], nothing=""
        )


@app.command()
def retry(
    ids: Annotated[list[str] | None, typer.Argument(metavar="ID", help="One or more job ids.")] = None,
    failed: Annotated[bool, typer.Option("--failed", help="All failed jobs, instead of ids.")] = False,
    kind: Annotated[str | None, typer.Option(help="With --failed: only jobs of this kind.")] = None,
    error_code: Annotated[
        str | None, typer.Option(help="With --failed: only those that failed with this code.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Let failed or cancelled jobs run again, with all their attempts; their history stays."""
    if failed == bool(ids):
        raise typer.BadParameter("give either ids or --failed.", param_hint="ID")
    if (kind or error_code) and not failed:
        raise typer.BadParameter("--kind and --error-code go with --failed.", param_hint="--failed")
    with operator() as ask:
        chosen = _failed_ids(ask, kind, error_code) if failed else ids or []
        result = _in_pages(ask, "jobs.retry", chosen)
    _report(result, as_json=as_json, done="waits to run again")


@app.command()
def cancel(ids: Ids, as_json: AsJson = False) -> None:
    """Cancel jobs that wait or run. A running job is asked to stop, and its result is not written."""
    with operator() as ask:
        result = _in_pages(ask, "jobs.cancel", ids)
    _report(result, as_json=as_json, done="is cancelled")


def _failed_ids(ask: Any, kind: str | None, error_code: str | None) -> list[str]:
    """Collect all ids before the first retry, so that a job that fails again at once is not retried twice."""
    found: list[str] = []
    before = None
    while True:
        page = ask("jobs.list", state="failed", kind=kind, error_code=error_code, before=before, limit=PAGE)
        found += [job["id"] for job in page["jobs"]]
        before = page["next"]
        if before is None:
            return found


def _in_pages(ask: Any, action: str, ids: list[str]) -> dict[str, Any]:
    """Perform the action page by page, one transaction each; show a bar if there is more than one page."""
    result: dict[str, Any] = {"changed": [], "refused": []}
    pages = [ids[start : start + PAGE] for start in range(0, len(ids), PAGE)]
    with counting_bar("jobs", len(ids), least=PAGE + 1, in_pipes=True) as advance:
        for page in pages:
            answer = ask(action, ids=page)
            result["changed"] += answer["changed"]
            result["refused"] += answer["refused"]
            advance(len(page))
    return result


def _report(result: Mapping[str, Any], *, as_json: bool, done: str) -> None:
    changed, refused = result["changed"], result["refused"]
    if as_json:
        print_json(result)
    elif len(changed) > PAGE or not (changed or refused):
        print_line(f"{counted(len(changed), 'job')}: each {done}." if changed else "No jobs were changed.")
    else:
        for one in changed:
            asked = one["state"] == "requested"
            print_line(f"{one['id']} {'is to be cancelled by its worker' if asked else done}.")
    for one in refused:
        print_error(one["message"], one["code"], one["hint"])
    if refused:
        raise typer.Exit(REFUSED)


def _when(job: Mapping[str, Any]) -> str:
    if job["cancel_requested_at"]:
        return "being cancelled"
    match job["state"]:
        case "ready":
            return f"due {age(job['due_at'])}"
        case "running":
            return f"began {age(job['started_at'])}"
        case _:
            return f"ended {age(job['ended_at'])}"


def _sentence(error: Mapping[str, Any] | None) -> str:
    return f"{error.get('code')}: {error.get('message')}" if error else ""
