"""`longtake schedules list|run|pause|resume`."""

from collections.abc import Mapping
from typing import Annotated, Any

import typer

from longtake.terminal.commands import Commands
from longtake.terminal.options import AsJson

app = Commands(help="List, run, pause and resume schedules.")

Names = Annotated[list[str], typer.Argument(metavar="NAME", help="One or more schedules.")]


@app.command("list")
def list_schedules(as_json: AsJson = False) -> None:
    """List schedules with their last and next time."""
    from longtake.cli.operator_access import ask
    from longtake.terminal.output import age, print_json, print_table

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
    """Enqueue a schedule's job now, in addition to its regular times."""
    from longtake.cli.operator_access import ask
    from longtake.terminal.output import print_json, print_line

    result = ask("schedules.run", name=name)
    if as_json:
        print_json(result)
    elif result["created"]:
        print_line(f"{result['job_id']} waits to run.")
    else:
        print_line(f"{result['job_id']} of this schedule waits or runs already; there is never a second one beside it.")


@app.command()
def pause(names: Names, as_json: AsJson = False) -> None:
    """Pause schedules; jobs that are already enqueued go on."""
    from longtake.cli.operator_access import change

    change("schedules.pause", f"Paused: {', '.join(names)}.", as_json=as_json, names=names)


@app.command()
def resume(names: Names, as_json: AsJson = False) -> None:
    """Resume schedules; one whose time has passed meanwhile runs once."""
    from longtake.cli.operator_access import change

    change("schedules.resume", f"Resumed: {', '.join(names)}.", as_json=as_json, names=names)


def _rhythm(schedule: Mapping[str, Any]) -> str:
    from longtake.terminal.output import duration

    return str(schedule["cron"] or f"every {duration(schedule['every_seconds'])}")
