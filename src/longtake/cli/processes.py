"""`longtake serve|worker|sandbox`: processes that run until a signal ends them."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from longtake.terminal.commands import AsJson

if TYPE_CHECKING:
    from longtake_sandbox.sandbox import Limit

App = Annotated[
    str | None,
    typer.Option("--app", metavar="MODULE:FUNCTION", help="Function that declares your own job kinds (LONGTAKE_APP)."),
]
Concurrency = Annotated[
    int | None,
    typer.Option(min=1, max=10_000, help="Jobs run at the same time (LONGTAKE_WORKER_CONCURRENCY)."),
]


def serve(
    host: Annotated[str | None, typer.Option(help="Address to listen on (LONGTAKE_HOST).")] = None,
    port: Annotated[
        int | None, typer.Option(min=0, max=65_535, help="Port to listen on; 0 takes any free one (LONGTAKE_PORT).")
    ] = None,
    no_worker: Annotated[bool, typer.Option("--no-worker", help="Only answer requests; run no jobs here.")] = False,
    app: App = None,
    concurrency: Concurrency = None,
    until_free: Annotated[Path | None, typer.Option(hidden=True, help="End when no command holds this lock.")] = None,
) -> None:
    """Run the server, with a worker inside, until SIGTERM or Ctrl-C.

    The first signal stops it in order: running jobs get LONGTAKE_STOP_GRACE_SECONDS to finish, what is left is given
    back unspent. A second signal ends it at once; the next worker takes its jobs over.
    """
    from longtake.server.server import run_server
    from longtake.settings import load_settings

    if until_free is not None:
        from longtake.cli.embedded_server import end_when_free

        end_when_free(until_free)
    given = _given(host=host, port=port, app=app, worker_concurrency=concurrency)
    run_server(load_settings().model_copy(update=given), with_worker=not no_worker)


def worker(app: App = None, concurrency: Concurrency = None) -> None:
    """Run a worker without a server until SIGTERM or Ctrl-C; on PostgreSQL as many as you like.

    A SQLite file belongs to one process: beside a server, which has a worker inside, this is refused.
    """
    from longtake.db.errors import DatabaseOwned
    from longtake.server.process import run_worker
    from longtake.settings import load_settings

    given = _given(app=app, worker_concurrency=concurrency)
    try:
        run_worker(load_settings().model_copy(update=given))
    except DatabaseOwned as error:
        hint = "A server has a worker inside, so its jobs are run already. For several workers use PostgreSQL."
        raise DatabaseOwned(error.message, hint=hint) from error


def _given(**options: Any) -> dict[str, Any]:
    return {name: value for name, value in options.items() if value is not None}


def sandbox(  # noqa: PLR0913, PLR0917 - each is a knob of its own
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65_535, help="Port to listen on; 0 takes any free one.")] = 8090,
    key: Annotated[
        list[str] | None, typer.Option(help="A key that is accepted; may be repeated. Without it any non-empty one is.")
    ] = None,
    seconds: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=SECONDS", help="How long image, video or a model by name takes; may be repeated."),
    ] = None,
    spread: Annotated[float, typer.Option(min=0, max=1, help="Durations vary by this part, up and down.")] = 0.5,
    instant: Annotated[bool, typer.Option("--instant", help="Draw nothing: always the same tiny files.")] = False,
    submit_limit: Annotated[
        str | None, typer.Option(metavar="N/SECONDS", help="Most submits to KIE in a time, such as 20/10.")
    ] = None,
    query_limit: Annotated[
        str | None, typer.Option(metavar="N/SECONDS", help="Most queries to KIE in a time, such as 10/1.")
    ] = None,
    tmdb_limit: Annotated[
        str, typer.Option(metavar="N/SECONDS", help="Most calls of TMDB's API in a time; empty takes the limit away.")
    ] = "40/1",
    titles: Annotated[int, typer.Option(min=0, max=20_000, help="How many titles Bangumi has.")] = 200,
    url_seconds: Annotated[float, typer.Option(min=0, help="How long the address of a result works.")] = 86_400,
    webhook_key: Annotated[str, typer.Option(help="Sign callbacks with this key.")] = "",
    faststart: Annotated[str, typer.Option(help="Index at the front of a clip: yes, no, or half of them.")] = "half",
    seed: Annotated[int, typer.Option(help="Where chances begin; the same seed, the same faults and titles.")] = 0,
    state: Annotated[
        str, typer.Option(metavar="FILE", help="Keep accepted tasks in this file, so that a restart knows them.")
    ] = "",
    quiet: Annotated[bool, typer.Option("--quiet", help="Do not print submits, callbacks and faults.")] = False,
    as_json: AsJson = False,
) -> None:
    """Run a sandbox: a local server that imitates the providers, draws, takes its time, and fails on request.

    Nothing leaves this machine and nothing costs anything.
    """
    from longtake.server.errors import CannotListen
    from longtake.terminal.output import print_line
    from longtake_sandbox.sandbox import FASTSTART, SECONDS, Options
    from longtake_sandbox.server import run_sandbox

    if faststart not in FASTSTART:
        raise typer.BadParameter("must be half, yes or no", param_hint="--faststart")
    options = Options(
        host=host, port=port, keys=frozenset(key or ()), seconds={**SECONDS, **_durations(seconds or [])},
        spread=spread, instant=instant, submit_limit=_limit("--submit-limit", submit_limit),
        query_limit=_limit("--query-limit", query_limit),
        tmdb_limit=_limit("--tmdb-limit", tmdb_limit), titles=titles, url_seconds=url_seconds, webhook_key=webhook_key,
        faststart=faststart, seed=seed, state=state, quiet=quiet,
    )  # fmt: skip

    def announce(url: str) -> None:
        # Exactly one line: a program that starts the sandbox reads only this.
        print_line(json.dumps({"url": url}) if as_json else f"The sandbox listens on {url} (Ctrl-C ends it).")

    try:
        run_sandbox(options, announce)
    except OSError as error:
        raise CannotListen(f"Cannot listen on {host}, port {port}: {error.strerror}.") from error


def _durations(pairs: list[str]) -> dict[str, float]:
    found = {}
    for pair in pairs:
        name, _, value = pair.rpartition("=")
        try:
            found[name] = float(value)
        except ValueError:
            name = ""
        if not name or found[name] < 0:
            raise typer.BadParameter(f"{pair!r} is not NAME=SECONDS, such as image=2", param_hint="--seconds")
    return found


def _limit(option: str, text: str | None) -> "Limit | None":
    from longtake_sandbox.sandbox import Limit

    try:
        return Limit.parse(text) if text else None
    except ValueError:
        raise typer.BadParameter(f"{text!r} is not N/SECONDS, such as 20/10", param_hint=option) from None
