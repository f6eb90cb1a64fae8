"""`longtake alerts list|acknowledge|resolve`."""

import getpass
from typing import Annotated

import typer

from longtake.cli.facts import AsJson

app = typer.Typer(help="See and answer what needs a person's eye.", no_args_is_help=True)

Ids = Annotated[list[str], typer.Argument(metavar="ID", help="One or more alert ids.")]


@app.command("list")
def list_alerts(
    state: Annotated[
        str | None, typer.Option(help="open, acknowledged or resolved; without it all that are not resolved.")
    ] = None,
    before: Annotated[str | None, typer.Option(metavar="ID", help="Only alerts older than this one.")] = None,
    limit: Annotated[int, typer.Option(min=1, max=500, help="How many at most.")] = 100,
    as_json: AsJson = False,
) -> None:
    """List alerts, the newest first."""
    from longtake.cli.operator_access import ask
    from longtake.cli.output import age, print_json, print_table

    found = ask("alerts.list", state=state, before=before, limit=limit)
    if as_json:
        print_json(found)
        return
    print_table(
        ("id", "severity", "code", "state", "times", "last", "message"),
        [
            (
                one["id"], one["severity"], one["code"], one["state"], one["count"], age(one["last_at"]),
                one["message"],
            )
            for one in found["alerts"]
        ],
        nothing="There are no such alerts.",
    )  # fmt: skip


@app.command()
def acknowledge(
    ids: Ids,
    by: Annotated[str | None, typer.Option(help="Who looks after it; by default your user name.")] = None,
    as_json: AsJson = False,
) -> None:
    """Note that somebody looks after alerts; they stay until they are resolved."""
    from longtake.cli.operator_access import ask
    from longtake.cli.output import print_json, print_line

    who = by or getpass.getuser()
    result = ask("alerts.acknowledge", ids=ids, by=who)
    print_json(result) if as_json else print_line(f"{who} looks after {', '.join(ids)}.")


@app.command()
def resolve(ids: Ids, as_json: AsJson = False) -> None:
    """Say that the trouble is over; if it comes back, it is a new alert."""
    from longtake.cli.operator_access import ask
    from longtake.cli.output import print_json, print_line

    result = ask("alerts.resolve", ids=ids)
    print_json(result) if as_json else print_line(f"Resolved: {', '.join(ids)}.")
