"""`longtake kinds list|pause|resume`."""

from typing import Annotated

import typer

from longtake.terminal.commands import Commands
from longtake.terminal.options import AsJson

app = Commands(help="See and pause kinds of jobs.")

Names = Annotated[list[str], typer.Argument(metavar="NAME", help="One or more job kinds.")]


@app.command("list")
def list_kinds(as_json: AsJson = False) -> None:
    """List job kinds with what waits and runs of each."""
    from longtake.cli.operator_access import ask
    from longtake.terminal.output import count, print_json, print_table

    found = ask("kinds.list")
    if as_json:
        print_json(found)
        return
    print_table(
        ("kind", "ready", "running", "lane", "priority", "attempts", "state"),
        [
            (
                kind["name"], count(kind, "ready"), kind["running"], kind["lane"], kind["priority"],
                kind["max_attempts"], "paused" if kind["paused"] else "open",
            )
            for kind in found["kinds"]
        ],
        nothing="There are no job kinds yet; a server or worker declares them at its start.",
    )  # fmt: skip


@app.command()
def pause(names: Names, as_json: AsJson = False) -> None:
    """Let no job of the kinds start; those that run go on."""
    from longtake.cli.operator_access import change

    change("kinds.pause", f"Paused: {', '.join(names)}.", as_json=as_json, names=names)


@app.command()
def resume(names: Names, as_json: AsJson = False) -> None:
    """Let jobs of the kinds start again."""
    from longtake.cli.operator_access import change

    change("kinds.resume", f"Resumed: {', '.join(names)}.", as_json=as_json, names=names)
