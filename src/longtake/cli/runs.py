"""`longtake runs …`: the user's runs of scene images, and figures for operators."""

from datetime import UTC, datetime
from typing import Annotated, Any

import typer

from longtake.cli.operator_access import ask
from longtake.cli.progress import describe_run, describe_scene, interruptible, watch_run
from longtake.cli.server import RUN, connect, shown_id, whole_ids
from longtake.terminal.commands import AsJson, Commands, Yes, confirm_deletion, delete_each
from longtake.terminal.failures import REFUSED
from longtake.terminal.output import (
    age,
    none_of,
    percent,
    print_facts,
    print_json,
    print_line,
    print_page,
    print_table,
    seconds,
)

app = Commands()

Id = Annotated[str, typer.Argument(metavar="ID", help="The run's id, or the end of it.")]
Ids = Annotated[list[str], typer.Argument(metavar="ID", help="One or more run ids, or the ends of them.")]
HINTS = {
    "NOT_FOUND": "`longtake runs list` lists your runs.",
    "REQUEST_INVALID": "`longtake runs list` lists your runs; --help shows the options.",
    "STATE_CONFLICT": "`longtake runs show ID` shows its progress; `longtake runs cancel ID` ends unfinished images.",
}
TITLE_SHOWN = 40


@app.command()
def create(
    prompts: Annotated[list[str], typer.Argument(metavar="PROMPT", help="3, 5, 7 or 10 of them, one for each scene.")],
    title: Annotated[str | None, typer.Option(help="A title for people.")] = None,
    model: Annotated[
        str | None, typer.Option(help="An image model that answers at once; without it the first.")
    ] = None,
    wait: Annotated[bool, typer.Option("--wait/--no-wait", help="Watch until all images are there.")] = True,
    as_json: AsJson = False,
) -> None:
    """Create a run, queue its images, and watch it."""
    with connect() as server, interruptible(server, "run") as started:
        run = server.with_credits(lambda: server.client.runs.create(prompts, title=title, model=model, advance=True))
        started.append(run["id"])
        _watch_and_print(server.client, run, wait=wait or server.embedded, as_json=as_json)


@app.command("list")
def list_runs(
    before: Annotated[str | None, typer.Option(metavar="ID", help="Only runs older than this one.")] = None,
    limit: Annotated[int, typer.Option(min=1, max=200, help="How many at most.")] = 50,
    as_json: AsJson = False,
) -> None:
    """List runs, the newest first."""
    with connect(HINTS) as server:
        found = server.client.runs.list(before=before, limit=limit)
    print_page(
        found,
        ("id", "status", "images", "credits", "created", "title"),
        (
            (
                shown_id(one["id"]), one["status"],
                f"{one['total']['completed']} of {one['total']['scenes']}",
                one["credits"]["charged"], age(one["created_at"]), (one["title"] or "")[:TITLE_SHOWN],
            )
            for one in found["runs"]
        ),
        nothing=none_of("runs", filtered=before is not None),
        cut=("title",),
        spare=("credits", "title"),
        as_json=as_json,
    )  # fmt: skip


@app.command()
def show(run_id: Id, as_json: AsJson = False) -> None:
    """Show one run with each of its scenes."""
    with connect(HINTS) as server:
        run = server.client.runs.get(server.whole_id(RUN, run_id))
    print_json(run) if as_json else _print_run(run)


@app.command()
def watch(run_id: Id, as_json: AsJson = False) -> None:
    """Show the progress of a run until all its queued images have ended."""
    with connect(HINTS) as server:
        run = server.client.runs.get(server.whole_id(RUN, run_id))
        with interruptible(server, "run", [run["id"]]):
            _watch_and_print(server.client, run, wait=True, as_json=as_json)


@app.command()
def advance(
    run_id: Id,
    failed: Annotated[bool, typer.Option("--failed", help="Also scenes that failed before.")] = False,
    as_json: AsJson = False,
) -> None:
    """Queue the missing images of a run. Twice changes nothing."""
    with connect(HINTS) as server:
        known = server.whole_id(RUN, run_id)
        done = server.with_credits(lambda: server.client.runs.advance(known, failed=failed))
        if server.embedded:
            with interruptible(server, "run", [known]):
                _watch_and_print(server.client, done["run"], wait=True, as_json=as_json)
            return
    print_json(done) if as_json else print_line(f"{done['action']}: {done['queued']} queued.")


@app.command()
def regenerate(
    run_id: Id,
    number: Annotated[int, typer.Argument(metavar="SCENE", min=1, max=100, help="The scene's number.")],
    prompt: Annotated[str | None, typer.Option(help="A new prompt; without it the same one.")] = None,
    wait: Annotated[bool, typer.Option("--wait/--no-wait", help="Watch until the image is there.")] = True,
    as_json: AsJson = False,
) -> None:
    """Make one scene again; its image stays until the new one is there."""
    with connect(HINTS) as server:
        known = server.whole_id(RUN, run_id)
        with interruptible(server, "run", [known]):
            run = server.with_credits(lambda: server.client.runs.regenerate(known, number, prompt=prompt))
            _watch_and_print(server.client, run, wait=wait or server.embedded, as_json=as_json)


@app.command()
def cancel(run_id: Id, as_json: AsJson = False) -> None:
    """Cancel the unfinished images of a run; their credits are returned, and finished images stay."""
    with connect(HINTS) as server:
        run = server.client.runs.cancel(server.whole_id(RUN, run_id))
    print_json(run) if as_json else print_line(f"{run['id']} is {run['status']}.")


@app.command()
def delete(run_ids: Ids, yes: Yes = False, as_json: AsJson = False) -> None:
    """Delete runs with their images; none may be unfinished. Credits stay as they are."""
    with connect(HINTS) as server:
        known = whole_ids(server.client, RUN, run_ids)
        confirm_deletion(known, "run", "Images go as well.", yes=yes)
        delete_each(known, server.client.runs.delete, as_json=as_json)


@app.command()
def figures(as_json: AsJson = False) -> None:
    """Show the queue of scene images by status; of the last 24 hours how long they took, where, how many failed."""
    found = ask("runs.figures")
    if as_json:
        print_json(found)
        return
    lately = found["last_24_hours"]
    print_facts(
        {
            **{f"{status} images": f"{number:,}" for status, number in found["queue"].items()},
            "completed in 24 hours": f"{lately['completed']:,}",
            "failed in 24 hours": f"{lately['failed']:,}",
            "failure rate": percent(lately["failure_rate"]),
            "mean of an image": seconds(lately["mean_seconds"]),
            "of which provider": _milliseconds(lately["mean_provider_ms"]),
            "of which storage": _milliseconds(lately["mean_storage_ms"]),
            "all of a try": _milliseconds(lately["mean_total_ms"]),
        }
    )


def _watch_and_print(client: Any, run: Any, *, wait: bool, as_json: bool) -> None:
    """Watch the run if `wait`, print it, and exit with 1 if an image that was waited for failed."""
    if wait and run["status"] == "generating":
        run = watch_run(client, run["id"])
    if as_json:
        print_json(run)
    elif wait:
        _print_run(run)
    else:
        print_line(run["id"])
    if wait and run["total"]["failed"]:
        raise typer.Exit(REFUSED)


def _print_run(run: Any) -> None:
    now = datetime.now(UTC)
    facts = {name: run[name] for name in ("id", "title", "model", "status")}
    progress = {
        "created": age(run["created_at"]),
        "so far": describe_run(run, now),
        "credits": run["credits"]["charged"],
    }
    print_facts(facts | progress)
    print_table(
        ("scene", "asset", "prompt", "state"),
        [
            (one["number"], one["asset_id"] or "–", one["prompt"][:TITLE_SHOWN], describe_scene(one, now))
            for one in run["scenes"]
        ],
        nothing="",
        cut=("prompt", "state"),
        spare=("prompt",),
    )


def _milliseconds(value: float | None) -> str:
    return "–" if value is None else f"{value:,.0f} ms"
