"""`longtake keys create|list|revoke`."""

from typing import Annotated

import typer

from longtake.terminal.commands import Commands
from longtake.terminal.options import AsJson

app = Commands(help="Make, see and revoke API keys for machines.")


@app.command()
def create(
    name: Annotated[str, typer.Argument(metavar="NAME", help="What it is for.")],
    user: Annotated[str, typer.Option(help="Whose key it is; what is made with it belongs to this user.")] = "local",
    role: Annotated[str, typer.Option(help="user, operator, admin or service.")] = "user",
    scopes: Annotated[
        list[str] | None,
        typer.Option("--scope", help="What it may do: read, generate, operate or admin; may be repeated."),
    ] = None,
    days: Annotated[int | None, typer.Option(min=1, max=3650, help="Days until it expires.")] = None,
    as_json: AsJson = False,
) -> None:
    """Create an API key and print it. It is not stored, so this is the only time it is shown."""
    from longtake.cli.operator_access import ask
    from longtake.terminal.output import print_json, print_line, print_note

    made = ask("keys.create", name=name, user=user, role=role, scopes=scopes or None, days=days)
    if as_json:
        print_json(made)
        return
    print_line(made["key"])
    print_note(f"Key {made['id']} of {made['user_id']}, for {', '.join(made['scopes'])}. It is not shown again.")


@app.command("list")
def list_keys(
    user: Annotated[str | None, typer.Option(help="Only keys of this user.")] = None, as_json: AsJson = False
) -> None:
    """List API keys that are not revoked, the newest first."""
    from longtake.cli.operator_access import ask
    from longtake.terminal.output import age, print_json, print_table

    found = ask("keys.list", user=user)
    if as_json:
        print_json(found)
        return
    print_table(
        ("id", "begins with", "name", "user", "role", "scopes", "last used", "expires"),
        [
            (
                key["id"], key["prefix"], key["name"], key["user_id"], key["role"], ", ".join(key["scopes"]),
                age(key["last_used_at"]) or "never", age(key["expires_at"]) or "never",
            )
            for key in found["keys"]
        ],
        nothing="There are no API keys.",
    )  # fmt: skip


@app.command()
def revoke(key_id: Annotated[str, typer.Argument(metavar="ID", help="The key's id.")], as_json: AsJson = False) -> None:
    """End an API key for good; the next request with it is refused."""
    from longtake.cli.operator_access import change

    change("keys.revoke", f"Revoked: {key_id}.", as_json=as_json, id=key_id)
