"""`longtake login` and `longtake logout`."""

import sys
from typing import Annotated

import typer

from longtake.terminal.options import AsJson

LONGEST_INPUT = 100_000


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
    from longtake.cli.server import connect
    from longtake.terminal.output import print_json, print_line

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
    from longtake.cli.server import remove_login
    from longtake.terminal.output import print_line

    print_line("You are logged out." if remove_login() else "You were not logged in.")


def _log_in(server: str | None, token: str | None) -> None:
    from longtake.cli.server import Login, connect_to, read_login, write_login
    from longtake.settings.checks import check_public_url

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
    from longtake.client.wire import checked_token

    if given is None and sys.stdin.isatty():
        given = _ask_for_token()
    text = (sys.stdin.read(LONGEST_INPUT) if given in {None, "-"} else given or "").strip()
    try:
        if text:
            return checked_token(text)
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="--token") from None
    raise typer.BadParameter("is empty", param_hint="--token")
