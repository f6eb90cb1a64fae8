"""`longtake`: all commands, and how failures end the process."""

import sys
from io import TextIOWrapper
from typing import Annotated

import typer

from longtake.cli import (
    alerts,
    assets,
    catalogue,
    jobs,
    keys,
    kinds,
    lanes,
    migrate,
    runs,
    schedules,
    secrets,
    tasks,
    webhooks,
    workers,
)
from longtake.cli import credits as credit_commands
from longtake.cli.generate import generate
from longtake.cli.login import login, logout
from longtake.cli.models import print_models
from longtake.cli.processes import sandbox, serve, worker
from longtake.cli.status import print_figures, print_health, print_settings, print_version
from longtake.cli.token import print_token
from longtake.errors import LongtakeError
from longtake.terminal.commands import Commands
from longtake.terminal.failures import EXIT_CODES, INTERRUPTED, end_unexpectedly, end_with

EPILOG = "Exit codes:\n\n" + "\n\n".join(f"{code}: {meaning}." for code, meaning in EXIT_CODES.items())

app = Commands(
    name="longtake",
    help="Media jobs that nothing interrupts. Settings are environment variables; `longtake settings` lists them.",
    epilog=EPILOG,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command("generate")(generate)
app.add_typer(tasks.app, name="tasks")
app.add_typer(assets.app, name="assets")
app.add_typer(runs.app, name="runs")
app.add_typer(catalogue.app, name="catalogue")
app.add_typer(webhooks.app, name="webhooks")
app.command("models")(print_models)
app.command("login")(login)
app.command("logout")(logout)
app.command("serve")(serve)
app.command("worker")(worker)
app.command("sandbox")(sandbox)
app.add_typer(jobs.app, name="jobs")
app.add_typer(lanes.app, name="lanes")
app.add_typer(kinds.app, name="kinds")
app.add_typer(schedules.app, name="schedules")
app.add_typer(workers.app, name="workers")
app.add_typer(alerts.app, name="alerts")
app.command("token")(print_token)
app.add_typer(keys.app, name="keys")
app.add_typer(secrets.app, name="secrets")
app.add_typer(credit_commands.app, name="credits")
app.add_typer(migrate.app, name="migrate")
app.command("health")(print_health)
app.command("figures")(print_figures)
app.command("settings")(print_settings)
app.command("version")(print_version)


def _print_version(asked: bool) -> None:
    if asked:
        print_version()
        raise typer.Exit


@app.callback()
def options(
    _version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """Handle the options before the command."""


def main() -> None:
    """Run the command and exit with its code."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            # A terminal that can only show ASCII gets escapes instead of an error.
            stream.reconfigure(errors="backslashreplace")
    try:
        app()
    except LongtakeError as error:
        end_with(error)
    except KeyboardInterrupt:
        raise SystemExit(INTERRUPTED) from None
    except Exception as error:  # noqa: BLE001 - the last place where a bug can still be explained
        end_unexpectedly(error)
