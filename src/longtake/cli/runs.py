"""`longtake runs …`: one's runs of scene images, on the server one uses."""

from typing import Annotated, Any

import typer

from longtake.cli.deletion import Yes
from longtake.cli.facts import AsJson
from longtake.cli.failures import REFUSED
from longtake.cli.runs_operators import figures

app = typer.Typer(help="Make, watch and see runs of scene images.", no_args_is_help=True)

Id = Annotated[str, typer.Argument(metavar="ID", help="The run's id.")]
Ids = Annotated[list[str], typer.Argument(metavar="ID", help="One or more run ids.")]
HINTS = {
    "NOT_FOUND": "`longtake runs list` lists yours.",
    "REQUEST_INVALID": "`longtake runs list` shows whole ids; --help what else there is.",
    "STATE_CONFLICT": "`longtake runs show ID` shows how far it is; `longtake runs cancel ID` ends what is under way.",
}
TITLE_SHOWN = 40


@app.command()
def create(
    prompts: Annotated[list[str], typer.Argument(metavar="PROMPT", help="3, 5, 7 or 10 of them, one for each scene.")],
    title: Annotated[str | None, typer.Option(help="What people shall read.")] = None,
    model: Annotated[str | None, typer.Option(help="An image model that answers at once; else the first.")] = None,
    wait: Annotated[bool, typer.Option("--wait/--no-wait", help="Watch until all images are there.")] = True,
    as_json: AsJson = False,
) -> None:
    """Make a run, queue its images, and watch it."""
    from longtake.cli.user_server import reach

    with reach() as reached:
        run = reached.paid(lambda: reached.client.runs.create(prompts, title=title, model=model, advance=True))
        _go_on(reached.client, run, wait=wait or reached.embedded, as_json=as_json)


@app.command("list")
def list_runs(
    before: Annotated[str | None, typer.Option(metavar="ID", help="Only runs older than this one.")] = None,
    limit: Annotated[int, typer.Option(min=1, max=200, help="How many at most.")] = 50,
    as_json: AsJson = False,
) -> None:
    """List runs, the newest first."""
    from longtake.cli.output import age, print_json, print_note, print_table
    from longtake.cli.user_server import reach

    with reach(HINTS) as reached:
        found = reached.client.runs.list(before=before, limit=limit)
    if as_json:
        print_json(found)
        return
    print_table(
        ("id", "status", "images", "credits", "created", "title"),
        [
            (
                one["id"], one["status"], f"{one['total']['completed']} of {one['total']['scenes']}",
                one["credits"]["charged"], age(one["created_at"]), (one["title"] or "")[:TITLE_SHOWN],
            )
            for one in found["runs"]
        ],
        nothing="There are no runs.",
        cut=("title",),
        spare=("credits", "title"),
    )  # fmt: skip
    if found["next"]:
        print_note(f"There are more: add --before {found['next']}")


@app.command()
def show(run_id: Id, as_json: AsJson = False) -> None:
    """Show one run with each of its scenes."""
    from longtake.cli.output import print_json
    from longtake.cli.user_server import reach

    with reach(HINTS) as reached:
        run = reached.client.runs.get(run_id)
    if as_json:
        print_json(run)
    else:
        _print_run(run)


@app.command()
def watch(run_id: Id, as_json: AsJson = False) -> None:
    """Show how a run gets on, live, until nothing of it is under way."""
    from longtake.cli.user_server import reach

    with reach(HINTS) as reached:
        _go_on(reached.client, reached.client.runs.get(run_id), wait=True, as_json=as_json)


@app.command()
def advance(
    run_id: Id,
    failed: Annotated[bool, typer.Option("--failed", help="Also scenes that failed before.")] = False,
    as_json: AsJson = False,
) -> None:
    """Queue the images of a run that are missing. Twice is as good as once."""
    from longtake.cli.output import print_json, print_line
    from longtake.cli.user_server import reach

    with reach(HINTS) as reached:
        done = reached.paid(lambda: reached.client.runs.advance(run_id, failed=failed))
        if reached.embedded:
            _go_on(reached.client, done["run"], wait=True, as_json=as_json)
            return
    if as_json:
        print_json(done)
    else:
        print_line(f"{done['action']}: {done['queued']} queued.")


@app.command()
def regenerate(
    run_id: Id,
    number: Annotated[int, typer.Argument(metavar="SCENE", min=1, max=100, help="The scene's number.")],
    prompt: Annotated[str | None, typer.Option(help="Other words for it; else the same again.")] = None,
    wait: Annotated[bool, typer.Option("--wait/--no-wait", help="Watch until the image is there.")] = True,
    as_json: AsJson = False,
) -> None:
    """Make one scene again; its image stays until the new one is there."""
    from longtake.cli.user_server import reach

    with reach(HINTS) as reached:
        run = reached.paid(lambda: reached.client.runs.regenerate(run_id, number, prompt=prompt))
        _go_on(reached.client, run, wait=wait or reached.embedded, as_json=as_json)


@app.command()
def cancel(run_id: Id, as_json: AsJson = False) -> None:
    """End what is under way of a run; its credits come back, and images that are there stay."""
    from longtake.cli.output import print_json, print_line
    from longtake.cli.user_server import reach

    with reach(HINTS) as reached:
        run = reached.client.runs.cancel(run_id)
    if as_json:
        print_json(run)
    else:
        print_line(f"{run['id']} is {run['status']}.")


@app.command()
def delete(run_ids: Ids, yes: Yes = False, as_json: AsJson = False) -> None:
    """Delete runs of which nothing is under way, with their images. Credits stay as they are."""
    from longtake.cli.deletion import confirm_deletion, delete_each
    from longtake.cli.user_server import reach

    known = list(dict.fromkeys(run_ids))
    confirm_deletion(known, "run", "Images go as well.", yes=yes)
    with reach(HINTS) as reached:
        delete_each(known, reached.client.runs.delete, as_json=as_json)


app.command()(figures)


def _go_on(client: Any, run: Any, *, wait: bool, as_json: bool) -> None:
    """Watch the run if that is wanted, print it, and end with 1 where an image that was wanted is missing."""
    from longtake.cli.output import print_json, print_line
    from longtake.cli.run_progress import watch_run

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
    from datetime import UTC, datetime

    from longtake.cli.output import age, print_facts, print_table
    from longtake.cli.run_progress import describe_run, describe_scene

    now = datetime.now(UTC)
    facts = {name: run[name] for name in ("id", "title", "model", "status")}
    told = {"created": age(run["created_at"]), "so far": describe_run(run, now), "credits": run["credits"]["charged"]}
    print_facts(facts | told)
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
