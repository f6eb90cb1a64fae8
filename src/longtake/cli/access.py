"""`longtake login|logout|token`, `longtake keys …` and `longtake secrets …`: who may do what, here and at providers."""

import sys
from typing import Annotated

import typer

from longtake.cli.operator_access import ask, change
from longtake.cli.server import Login, connect, connect_to, make_token, read_login, remove_login, write_login
from longtake.client.wire import checked_token
from longtake.services.accounts.caller import LONGEST_USER_ID, is_user_id
from longtake.settings import load_settings
from longtake.settings.checks import check_public_url
from longtake.terminal.commands import AsJson, Commands
from longtake.terminal.output import age, print_json, print_line, print_note, print_page

LONGEST_INPUT = 100_000
MOST_HOURS = 24 * 366
ROLES = ("user", "operator", "admin", "service")
keys = Commands()
secrets = Commands()


def login(
    server: Annotated[
        str | None, typer.Option(metavar="URL", help="The server's address, such as https://media.example.com.")
    ] = None,
    token: Annotated[
        str | None,
        typer.Option(help="A token or API key; - reads it from standard input. Arguments can be seen by others."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Use a server from now on; without options, show which server is used, and as which user.

    The token is asked for, checked, and stored in your configuration folder, readable by you alone. LONGTAKE_SERVER and
    LONGTAKE_TOKEN override it.
    """
    if server is not None or token is not None:
        _log_in(server, token)
    with connect() as connection:
        user = connection.user
    if as_json:
        print_json({"server": connection.url, "user": user, "because": connection.because})
    else:
        print_line(f"You are {user} at {connection.url} ({connection.because}).")


def logout() -> None:
    """Forget the server and the token that `longtake login` stored."""
    print_line("You are logged out." if remove_login() else "You were not logged in.")


def _log_in(server: str | None, token: str | None) -> None:
    before = read_login()
    address = server or (before.server if before else "")
    if not address:
        raise typer.BadParameter("is missing: name the server to log in to", param_hint="--server")
    try:
        address = check_public_url(address)
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="--server") from None
    new = Login(address, _read_token(token))
    # Checked before it is stored, so that a wrong one does not replace one that works.
    # Tried only once: the person who typed the address wants to know soon that it is wrong.
    with connect_to(new.server, new.token, "checked", patience=0):
        write_login(new)


def _ask_for_token() -> str:
    try:
        return str(typer.prompt("Token or API key", hide_input=True))
    except typer.Abort:
        raise KeyboardInterrupt from None


def _read_token(given: str | None) -> str:
    if given is None and sys.stdin.isatty():
        given = _ask_for_token()
    text = (sys.stdin.read(LONGEST_INPUT) if given in {None, "-"} else given or "").strip()
    try:
        if text:
            return checked_token(text)
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="--token") from None
    raise typer.BadParameter("is empty", param_hint="--token")


def print_token(
    user: Annotated[str, typer.Option(help="Whose token it is; what is made with it belongs to this user.")] = "local",
    role: Annotated[str, typer.Option(help="user, operator, admin or service.")] = "user",
    hours: Annotated[float, typer.Option(min=0.01, max=MOST_HOURS, help="For how long it is valid.")] = 12,
    as_json: AsJson = False,
) -> None:
    """Print a token for the HTTP API, signed with this machine's secret or with LONGTAKE_JWT_SECRET.

    Where LONGTAKE_JWT_JWKS names another issuer, none is made here.
    """
    if role not in ROLES:
        raise typer.BadParameter(f"must be one of {', '.join(ROLES)}", param_hint="--role")
    if not is_user_id(user):
        raise typer.BadParameter(f"must have 1 to {LONGEST_USER_ID} printable characters", param_hint="--user")
    token = make_token(load_settings(), user, role, hours)
    print_json({"token": token, "user": user, "role": role}) if as_json else print_line(token)


@keys.command("create")
def create_key(
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
    made = ask("keys.create", name=name, user=user, role=role, scopes=scopes or None, days=days)
    if as_json:
        print_json(made)
        return
    print_line(made["key"])
    print_note(f"Key {made['id']} of {made['user_id']}, for {', '.join(made['scopes'])}. It is not shown again.")


@keys.command("list")
def list_keys(
    user: Annotated[str | None, typer.Option(help="Only keys of this user.")] = None, as_json: AsJson = False
) -> None:
    """List API keys that are not revoked, the newest first."""
    found = ask("keys.list", user=user)
    print_page(
        found,
        ("id", "begins with", "name", "user", "role", "scopes", "last used", "expires"),
        (
            (
                key["id"], key["prefix"], key["name"], key["user_id"], key["role"], ", ".join(key["scopes"]),
                age(key["last_used_at"]) or "never", age(key["expires_at"]) or "never",
            )
            for key in found["keys"]
        ),
        nothing="There are no API keys.",
        as_json=as_json,
    )  # fmt: skip


@keys.command("revoke")
def revoke_key(
    key_id: Annotated[str, typer.Argument(metavar="ID", help="The key's id.")], as_json: AsJson = False
) -> None:
    """End an API key for good; the next request with it is refused."""
    change("keys.revoke", f"Revoked: {key_id}.", as_json=as_json, id=key_id)


@secrets.command("set")
def set_secret(
    name: Annotated[
        str, typer.Argument(metavar="NAME", help="kie_api_key, kie_webhook_key, gemini_api_key or tmdb_api_key.")
    ],
    as_json: AsJson = False,
) -> None:
    """Store a secret, encrypted. Its value is asked for or read from standard input: others can see arguments."""
    change(
        "secrets.set",
        f"{name} is stored; running processes know it within 5 seconds.",
        as_json=as_json,
        name=name,
        value=_read_value(name),
    )


@secrets.command("list")
def list_secrets(as_json: AsJson = False) -> None:
    """List which secrets are stored, and when each was changed; never what they are."""
    found = ask("secrets.list")
    print_page(
        found,
        ("name", "changed", "sealed with"),
        ((one["name"], age(one["changed_at"]), one["key_id"]) for one in found["secrets"]),
        nothing="There are no stored secrets.",
        as_json=as_json,
    )


@secrets.command("remove")
def remove_secret(
    name: Annotated[str, typer.Argument(metavar="NAME", help="The secret.")], as_json: AsJson = False
) -> None:
    """Delete a stored secret, even one that can no longer be decrypted."""
    change("secrets.remove", f"Removed: {name}.", as_json=as_json, name=name)


@secrets.command("rotate")
def rotate_secrets(as_json: AsJson = False) -> None:
    """Encrypt all stored secrets with the first key of LONGTAKE_MASTER_KEY."""
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
