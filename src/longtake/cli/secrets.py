"""`longtake secrets set|list|remove|rotate`."""

import sys
from typing import Annotated

import typer

from longtake.terminal.commands import Commands
from longtake.terminal.options import AsJson

app = Commands(help="Store keys of providers, encrypted, in the database.")

LONGEST_INPUT = 100_000


@app.command("set")
def set_secret(
    name: Annotated[
        str, typer.Argument(metavar="NAME", help="kie_api_key, kie_webhook_key, gemini_api_key or tmdb_api_key.")
    ],
    as_json: AsJson = False,
) -> None:
    """Store a secret, encrypted. Its value is asked for or read from standard input: others can see arguments."""
    from longtake.cli.operator_access import change

    change(
        "secrets.set",
        f"{name} is stored; running processes know it within 5 seconds.",
        as_json=as_json,
        name=name,
        value=_read_value(name),
    )


@app.command("list")
def list_secrets(as_json: AsJson = False) -> None:
    """List which secrets are stored, and when each was changed; never what they are."""
    from longtake.cli.operator_access import ask
    from longtake.terminal.output import age, print_json, print_table

    found = ask("secrets.list")
    if as_json:
        print_json(found)
        return
    print_table(
        ("name", "changed", "sealed with"),
        [(one["name"], age(one["changed_at"]), one["key_id"]) for one in found["secrets"]],
        nothing="There are no stored secrets.",
    )


@app.command()
def remove(name: Annotated[str, typer.Argument(metavar="NAME", help="The secret.")], as_json: AsJson = False) -> None:
    """Delete a stored secret, even one that can no longer be decrypted."""
    from longtake.cli.operator_access import change

    change("secrets.remove", f"Removed: {name}.", as_json=as_json, name=name)


@app.command()
def rotate(as_json: AsJson = False) -> None:
    """Encrypt all stored secrets with the first key of LONGTAKE_MASTER_KEY."""
    from longtake.cli.operator_access import ask
    from longtake.terminal.output import print_json, print_line

    result = ask("secrets.rotate")
    if as_json:
        print_json(result)
    elif result["rotated"]:
        print_line(f"Encrypted again: {', '.join(result['rotated'])}.")
    else:
        print_line("All secrets are encrypted with the first key already.")


def _read_value(name: str) -> str:
    if sys.stdin.isatty():
        value: str = typer.prompt(f"Value of {name}", hide_input=True)
        return value
    return sys.stdin.read(LONGEST_INPUT)
