"""`longtake alerts list|acknowledge|resolve`."""

import getpass
from typing import Annotated

import typer

from longtake.terminal.commands import Commands
from longtake.terminal.options import AsJson

app = Commands(help="List, acknowledge and resolve alerts.")

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
    from longtake.terminal.output import age, print_json, print_table

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
        nothing="No alerts match." if state or before else "There are no unresolved alerts.",
    )  # fmt: skip


@app.command()
def acknowledge(
    ids: Ids,
    by: Annotated[str | None, typer.Option(help="Who looks after it; by default your user name.")] = None,
    as_json: AsJson = False,
) -> None:
    """Mark alerts as being looked after; they stay until they are resolved."""
    from longtake.cli.operator_access import change

    who = by or getpass.getuser()
    change("alerts.acknowledge", f"{who} looks after {', '.join(ids)}.", as_json=as_json, ids=ids, by=who)


@app.command()
def resolve(ids: Ids, as_json: AsJson = False) -> None:
    """Mark alerts as resolved; if the trouble comes back, a new alert opens."""
    from longtake.cli.operator_access import change

    change("alerts.resolve", f"Resolved: {', '.join(ids)}.", as_json=as_json, ids=ids)
