"""`longtake migrate up|down|status`."""

import sys
from typing import TYPE_CHECKING, Annotated

import typer

from longtake.cli.facts import AsJson
from longtake.cli.failures import SCHEMA_MISMATCH

if TYPE_CHECKING:
    from longtake.db.migrate import MigrationStatus

app = typer.Typer(help="Bring the database's tables to the version this program needs.", no_args_is_help=True)


@app.command()
def up(as_json: AsJson = False) -> None:
    """Apply all migrations that are missing; a database that has them all is left alone.

    On SQLite `longtake serve` does this by itself. On PostgreSQL run it once before the new version starts.
    """
    from longtake.app.opening import patiently
    from longtake.db.migrate import migrate_up

    _report(patiently(migrate_up, _url()), as_json=as_json)


@app.command()
def down(
    to: Annotated[str, typer.Argument(help="The migration to go back to; `base` removes all tables.")],
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
    as_json: AsJson = False,
) -> None:
    """Undo migrations. What the removed tables and columns hold is lost."""
    from alembic.util.exc import CommandError

    from longtake.app.opening import patiently
    from longtake.db.migrate import migrate_down

    url = _url()
    if not yes:
        if not sys.stdin.isatty():
            raise typer.BadParameter("this deletes data: say --yes if you mean it.", param_hint="--yes")
        typer.confirm(f"Go back to {to}? What the removed tables and columns hold is lost.", abort=True)
    try:
        status = patiently(lambda address: migrate_down(address, to), url)
    except CommandError as error:
        raise typer.BadParameter(str(error), param_hint="TO") from None
    _report(status, as_json=as_json)


@app.command()
def status(as_json: AsJson = False) -> None:
    """Say which migrations the database has and which are missing; exit code 4 if any is."""
    from longtake.app.opening import schema_status
    from longtake.logs import configure_logs
    from longtake.settings import load_settings

    settings = load_settings()
    configure_logs("human", "warning")
    found = schema_status(settings)
    _report(found, as_json=as_json)
    if not found.up_to_date:
        raise typer.Exit(SCHEMA_MISMATCH)


def _url() -> str:
    from longtake.logs import configure_logs
    from longtake.settings import load_settings

    url = load_settings().database_url
    configure_logs("human", "warning")
    return url


def _report(status: "MigrationStatus", *, as_json: bool) -> None:
    from longtake.cli.output import print_json, print_line

    if as_json:
        facts = {"current": status.current, "latest": status.latest, "pending": status.pending}
        print_json({**facts, "up_to_date": status.up_to_date})
        return
    print_line(f"The database is at {status.current or 'no migration'}; this program needs {status.latest}.")
    for name in status.pending:
        print_line(f"  missing: {name}")
