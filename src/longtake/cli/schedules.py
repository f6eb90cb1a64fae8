"""`longtake schedules list|run|pause|resume`."""

from collections.abc import Mapping
from typing import Annotated, Any

import typer

from longtake.cli.facts import AsJson

app = typer.Typer(help="See, run and pause what runs by the clock.", no_args_is_help=True)

Names = Annotated[list[str], typer.Argument(metavar="NAME", help="One or more schedules.")]


@app.command("list")
def list_schedules(as_json: AsJson = False) -> None:
    """List schedules with their last and next time."""
    from longtake.cli.operator_access import ask
    from longtake.cli.output import age, print_json, print_table

    found = ask("schedules.list")
    if as_json:
        print_json(found)
        return
    print_table(
        ("schedule", "kind", "rhythm", "last", "next", "state"),
        [
            (
                one["name"], one["kind"], _rhythm(one), age(one["last_at"]) or "never",
                None if one["paused"] else age(one["next_at"]), "paused" if one["paused"] else "open",
            )
            for one in found["schedules"]
        ],
        nothing="There are no schedules yet; a server or worker declares them at its start.",
    )  # fmt: skip


@app.command()
def run(name: Annotated[str, typer.Argument(help="The schedule.")], as_json: AsJson = False) -> None:
    """Enqueue a schedule's job now, besides its rhythm."""
    from longtake.cli.operator_access import ask
    from longtake.cli.output import print_json, print_line

    result = ask("schedules.run", name=name)
    if as_json:
        print_json(result)
    elif result["created"]:
        print_line(f"{result['job_id']} waits to run.")
    else:
        print_line(f"{result['job_id']} of this schedule waits or runs already; there is never a second one beside it.")


@app.command()
def pause(names: Names, as_json: AsJson = False) -> None:
    """Stop schedules; a job that one of them has enqueued goes on."""
    from longtake.cli.operator_access import ask
    from longtake.cli.output import print_json, print_line

    result = ask("schedules.pause", names=names)
    print_json(result) if as_json else print_line(f"Paused: {', '.join(names)}.")


@app.command()
def resume(names: Names, as_json: AsJson = False) -> None:
    """Let schedules go on; one whose time has passed in between runs once."""
    from longtake.cli.operator_access import ask
    from longtake.cli.output import print_json, print_line

    result = ask("schedules.resume", names=names)
    print_json(result) if as_json else print_line(f"Resumed: {', '.join(names)}.")


def _rhythm(schedule: Mapping[str, Any]) -> str:
    from longtake.cli.output import duration

    return str(schedule["cron"] or f"every {duration(schedule['every_seconds'])}")
