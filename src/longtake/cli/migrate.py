"""`longtake migrate up|down|status`."""

from typing import Annotated

import typer
from pydantic import SecretStr

from longtake.db.migrate import MigrationStatus, migrate_down
from longtake.logs import configure_logs
from longtake.server.open_database import LOCATIONS, patiently, schema_status
from longtake.settings import Settings, load_settings
from longtake.settings.checks import check_admin_url
from longtake.terminal.commands import AsJson, Commands, Yes, confirm
from longtake.terminal.failures import SCHEMA_MISMATCH
from longtake.terminal.output import print_json, print_line

app = Commands()


def _checked(admin_url: str) -> str:
    try:
        return check_admin_url(SecretStr(admin_url)).get_secret_value()
    except ValueError as error:
        raise typer.BadParameter(f"{error}.") from None


AdminUrl = Annotated[
    str,
    typer.Option(
        help="An administrator's address, to make roles and database first (LONGTAKE_ADMIN_URL keeps it from others).",
        metavar="URL",
        callback=_checked,
    ),
]


@app.command()
def up(admin_url: AdminUrl = "", as_json: AsJson = False) -> None:
    """Apply all migrations that are missing; a database that has them all is left alone.

    On SQLite `longtake serve` does this by itself. On PostgreSQL run it once before the new version starts.
    """
    from longtake.db import is_sqlite
    from longtake.server.open_database import migrate_service, patiently, set_up
    from longtake.terminal.output import print_line

    settings = _settings()
    made = set_up(settings, admin_url)
    for one in [] if as_json else made:
        print_line(f"Made: {one}.")
    status = patiently(migrate_service, settings.database_url)
    if not is_sqlite(settings.database_url):
        # PostgreSQL's driver comes with it.
        from longtake.db.roles import require_rights

        require_rights(settings.database_url)
    _report(status, as_json=as_json, **({"made": made} if made else {}))


@app.command()
def down(
    to: Annotated[
        str, typer.Argument(help="The migration to go back to, such as credits_0001; `base` removes all tables.")
    ],
    yes: Yes = False,
    as_json: AsJson = False,
) -> None:
    """Undo migrations. What the removed tables and columns hold is lost."""
    url = _settings().database_url
    confirm(f"Go back to {to}? What the removed tables and columns hold is lost.", yes=yes)
    try:
        status = patiently(lambda address: migrate_down(address, to, LOCATIONS), url)
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="TO") from None
    _report(status, as_json=as_json)


@app.command()
def status(as_json: AsJson = False) -> None:
    """Show which migrations the database has and which are missing; exit code 4 if any is missing."""
    found = schema_status(_settings())
    _report(found, as_json=as_json)
    if not found.up_to_date:
        raise typer.Exit(SCHEMA_MISMATCH)


def _settings() -> Settings:
    settings = load_settings()
    configure_logs("human", "warning")
    return settings


def _report(status: MigrationStatus, *, as_json: bool, **further: object) -> None:
    if as_json:
        facts = {"current": status.current, "latest": status.latest, "pending": status.pending}
        print_json({**facts, "up_to_date": status.up_to_date, **further})
        return
    print_line(str(status))
    for name in status.pending:
        print_line(f"  missing: {name}")
