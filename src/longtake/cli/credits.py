"""`longtake credits balance|history|grant|withdraw|refund|audit`."""

import getpass
from collections.abc import Mapping
from typing import Annotated, Any

import typer

from longtake.cli.operator_access import ask, database_place
from longtake.cli.server import connect, shown_id
from longtake.terminal.commands import AsJson, Commands
from longtake.terminal.failures import REFUSED
from longtake.terminal.output import age, print_json, print_line, print_page, print_table

app = Commands()

User = Annotated[str, typer.Argument(metavar="USER", help="The user's id.")]
Amount = Annotated[int, typer.Argument(metavar="AMOUNT", min=1, help="How many credits.")]
Reason = Annotated[str, typer.Option(help="Why; it stays in the ledger.")]
By = Annotated[str | None, typer.Option(help="Who does it; without it, the name you are logged in with.")]
Reference = Annotated[
    str | None, typer.Option(help="A reference such as a payment's number; the same one again changes nothing.")
]


@app.command()
def balance(
    user: Annotated[
        str | None, typer.Argument(metavar="USER", help="The user's id; without it your own balance, where you log in.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Show a user's available credits and those that unfinished tasks hold; without USER your own, on your server."""
    if user is None:
        with connect() as server:
            found, place = {**server.client.balance()}, f"at {server.url}" if server.local is None else ""
    else:
        # Operators' commands ignore the log-in.
        found, place = ask("credits.balance", user_id=user), f"in {database_place()}"
    print_json(found) if as_json else print_line(_balance(user or "You", found, place))


@app.command()
def history(
    user: User,
    before: Annotated[str | None, typer.Option(help="Only transfers older than this one.")] = None,
    limit: Annotated[int, typer.Option(min=1, max=500, help="How many at most.")] = 50,
    as_json: AsJson = False,
) -> None:
    """List a user's transfers, newest first, with what each did to available and held credits."""
    found = ask("credits.history", user_id=user, before=before, limit=limit)
    print_page(
        found,
        ("id", "kind", "available", "held", "task", "reason", "by", "reference", "when"),
        (
            (
                one["id"], one["kind"], f"{one['available']:+,}", f"{one['held']:+,}",
                one["task_id"] and shown_id(one["task_id"]), one["reason"], one["made_by"],
                one["reference"], age(one["at"]),
            )
            for one in found["transfers"]
        ),
        nothing=f"No credits of {user} have ever moved.",
        cut=("reason", "by", "reference"),
        spare=("id", "reference", "by"),
        as_json=as_json,
    )  # fmt: skip


@app.command()
def grant(
    user: User,
    amount: Amount,
    reason: Reason,
    reference: Reference = None,
    by: By = None,
    as_json: AsJson = False,
) -> None:
    """Give a user credits."""
    _change("credits.grant", as_json, user_id=user, amount=amount, reason=reason, reference=reference, by=by)


@app.command()
def withdraw(
    user: User,
    amount: Amount,
    reason: Reason,
    reference: Reference = None,
    by: By = None,
    as_json: AsJson = False,
) -> None:
    """Take credits back that are available; those that tasks hold stay."""
    _change("credits.withdraw", as_json, user_id=user, amount=amount, reason=reason, reference=reference, by=by)


@app.command()
def refund(
    task: Annotated[str, typer.Argument(metavar="TASK", help="The task's id.")],
    reason: Reason,
    by: By = None,
    as_json: AsJson = False,
) -> None:
    """Give back what a completed task was charged, once."""
    _change("credits.refund", as_json, task_id=task, reason=reason, by=by)


@app.command()
def audit(as_json: AsJson = False) -> None:
    """Check that ledger, balances, holds and tasks agree; ends with 1 if anything does not."""
    found = ask("credits.audit")
    findings = found["findings"]
    if as_json:
        print_json(found)
    elif findings:
        columns = ("code", "task_id", "user_id", "transfer_id", "sentence")
        rows = [[one[column] for column in columns] for one in findings]
        print_table(("code", "task", "user", "transfer", "what is wrong"), rows, nothing="")
    else:
        print_line("The ledger, the balances, the holds and the tasks agree.")
    if findings:
        raise typer.Exit(REFUSED)


def _change(action: str, as_json: bool, *, by: str | None, **arguments: Any) -> None:
    made = ask(action, by=by or getpass.getuser(), **arguments)
    if as_json:
        print_json(made)
        return
    print_line(f"{made['kind'].capitalize()} of {made['amount']:,} credits: {made['transfer_id']}.")
    print_line(_balance(made["user_id"], made["balance"]))


def _balance(user: str, found: Mapping[str, Any], place: str = "") -> str:
    has = "have" if user == "You" else "has"
    where = f" ({place})" if place else ""
    return f"{user} {has} {found['available']:,} credits, and unfinished tasks hold {found['held']:,} more{where}."
