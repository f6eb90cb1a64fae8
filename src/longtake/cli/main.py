"""`longtake`: all commands, and how failures end the process."""

import sys
from io import TextIOWrapper
from typing import Annotated, Any

import typer

from longtake.errors import LongtakeError
from longtake.terminal.commands import Commands, LazyCommand, PlainGroup
from longtake.terminal.failures import EXIT_CODES, INTERRUPTED, end_unexpectedly, end_with

EPILOG = "Exit codes:\n\n" + "\n\n".join(f"{code}: {meaning}." for code, meaning in EXIT_CODES.items())

#: By name: the module of this package, what it is there, and its help. `longtake --help` imports none of them.
COMMANDS = {
    "generate": ("tasks:generate", "Make an image or a video, wait for it, and download it."),
    "models": ("tasks:print_models", "List the models of the server you use, with prices and parameters."),
    "login": (
        "access:login",
        "Use a server from now on; without options, show which server is used, and as which user.",
    ),
    "logout": ("access:logout", "Forget the server and the token that `longtake login` stored."),
    "serve": ("processes:serve", "Run the server, with a worker inside, until SIGTERM or Ctrl-C."),
    "worker": (
        "processes:worker",
        "Run a worker without a server until SIGTERM or Ctrl-C; on PostgreSQL as many as you like.",
    ),
    "sandbox": (
        "processes:sandbox",
        "Run a sandbox: a local server that imitates the providers, draws, takes its time, and fails on request.",
    ),
    "token": (
        "access:print_token",
        "Print a token for the HTTP API, signed with this machine's secret or with LONGTAKE_JWT_SECRET.",
    ),
    "health": (
        "status:print_health",
        "Show what waits and runs, how many workers are alive, which lanes are paused, and which alerts are live.",
    ),
    "figures": (
        "status:print_figures",
        "Show how many tasks succeed, how long they take and how soon their providers are asked, with the targets.",
    ),
    "settings": (
        "status:print_settings",
        "Print every setting with its value, where that came from, and what it means; secrets are masked.",
    ),
    "version": ("status:print_version", "Print the version."),
    "tasks": ("tasks:app", "See, follow, cancel, retry and delete your tasks."),
    "assets": ("assets:app", "Import, list, retry and delete media files; check copies and thumbnails."),
    "runs": ("runs:app", "Create, watch and list runs of scene images."),
    "catalogue": ("catalogue:app", "Manage titles with their posters and TMDB ids, and their sync."),
    "webhooks": ("webhooks:app", "Create, test, change and delete webhooks; see their deliveries."),
    "jobs": ("jobs:app", "See, retry and cancel jobs."),
    "lanes": ("engine:lanes", "See and change how many jobs may run at once, and how often one may start."),
    "kinds": ("engine:kinds", "See and pause kinds of jobs."),
    "schedules": ("engine:schedules", "List, run, pause and resume schedules."),
    "workers": ("engine:workers", "List workers."),
    "alerts": ("status:alerts", "List, acknowledge and resolve alerts."),
    "keys": ("access:keys", "Make, see and revoke API keys for machines."),
    "secrets": ("access:secrets", "Store keys of providers, encrypted, in the database."),
    "credits": ("credits:app", "See, give and take back users' credits, and check the ledger."),
    "migrate": ("migrate:app", "Bring the database's tables to the version this program needs."),
}


class AllCommands(PlainGroup):
    """All commands."""

    def __init__(self, **how: Any) -> None:
        super().__init__(**how)
        for name, (place, meaning) in COMMANDS.items():
            self.add_command(LazyCommand(name, f"longtake.cli.{place}", meaning))


app = Commands(
    name="longtake",
    cls=AllCommands,
    help="Media jobs that nothing interrupts. Settings are environment variables; `longtake settings` lists them.",
    epilog=EPILOG,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _print_version(asked: bool) -> None:
    if asked:
        from longtake.cli.status import print_version

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
        app(prog_name="longtake")
    except LongtakeError as error:
        end_with(error)
    except KeyboardInterrupt:
        raise SystemExit(INTERRUPTED) from None
    except Exception as error:  # noqa: BLE001 - the last place where a bug can still be explained
        end_unexpectedly(error)
