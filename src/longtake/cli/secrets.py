"""`longtake secrets set|list|remove|rotate`."""

import sys
from typing import Annotated

import typer

from longtake.cli.facts import AsJson

app = typer.Typer(help="Keep keys of providers, encrypted, in the database.", no_args_is_help=True)

LONGEST_INPUT = 100_000


@app.command("set")
def set_secret(
    name: Annotated[
        str, typer.Argument(metavar="NAME", help="kie_api_key, kie_webhook_key, gemini_api_key or tmdb_api_key.")
    ],
    as_json: AsJson = False,
) -> None:
    """Keep a secret, encrypted. Its value is asked for or read from standard input; arguments can be seen by others."""
    from longtake.cli.operator_access import ask
    from longtake.cli.output import print_json, print_line

    result = ask("secrets.set", name=name, value=_read_value(name))
    print_json(result) if as_json else print_line(f"{name} is stored; running processes know it within 5 seconds.")


@app.command("list")
def list_secrets(as_json: AsJson = False) -> None:
    """List which secrets are stored, and when each was changed; never what they are."""
    from longtake.cli.operator_access import ask
    from longtake.cli.output import age, print_json, print_table

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
    """Forget a stored secret, also one that cannot be opened any more."""
    from longtake.cli.operator_access import ask
    from longtake.cli.output import print_json, print_line

    result = ask("secrets.remove", name=name)
    print_json(result) if as_json else print_line(f"Removed: {name}.")


@app.command()
def rotate(as_json: AsJson = False) -> None:
    """Encrypt all stored secrets with the first key of LONGTAKE_MASTER_KEY."""
    from longtake.cli.operator_access import ask
    from longtake.cli.output import print_json, print_line

    result = ask("secrets.rotate")
    if as_json:
        print_json(result)
    elif result["rotated"]:
        print_line(f"Encrypted anew: {', '.join(result['rotated'])}.")
    else:
        print_line("All secrets are encrypted with the first key already.")


def _read_value(name: str) -> str:
    if sys.stdin.isatty():
        value: str = typer.prompt(f"Value of {name}", hide_input=True)
        return value
    return sys.stdin.read(LONGEST_INPUT)
