"""`longtake login` and `longtake logout`."""

import sys
from typing import Annotated

import typer

from longtake.cli.facts import AsJson

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
    """Use a server from now on; without options say which one is used, and as whom.

    The token is asked for, checked, and kept in your configuration folder, readable by you alone. LONGTAKE_SERVER and
    LONGTAKE_TOKEN go before it.
    """
    from longtake.cli.output import print_json, print_line
    from longtake.cli.user_server import reach

    if server is not None or token is not None:
        _log_in(server, token)
    with reach() as reached:
        user = reached.user
    if as_json:
        print_json({"server": reached.url, "user": user, "because": reached.because})
    else:
        print_line(f"You are {user} at {reached.url} ({reached.because}).")


def logout() -> None:
    """Forget the server and the token that `longtake login` keeps."""
    from longtake.cli.login_file import remove_login
    from longtake.cli.output import print_line

    print_line("You are logged out." if remove_login() else "You were not logged in.")


def _log_in(server: str | None, token: str | None) -> None:
    from longtake.cli.login_file import Login, read_login, write_login
    from longtake.cli.user_server import at_server
    from longtake.settings.addresses import check_public_url

    before = read_login()
    address = server or (before.server if before else "")
    if not address:
        raise typer.BadParameter("says where to log in", param_hint="--server")
    try:
        address = check_public_url(address)
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="--server") from None
    new = Login(address, _read_token(token))
    # Checked before it is kept: a wrong one must not take the place of one that works.
    # Tried once, too: whoever types an address wants to hear soon that it is wrong.
    with at_server(new.server, new.token, "checked", patience=0):
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
