"""`longtake serve` and `longtake worker`."""

from pathlib import Path
from typing import Annotated, Any

import typer

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
    until_free: Annotated[Path | None, typer.Option(hidden=True, help="End when nobody holds this lock.")] = None,
) -> None:
    """Run the server, with a worker inside, until SIGTERM or Ctrl-C.

    The first signal stops it in order: running jobs get LONGTAKE_STOP_GRACE_SECONDS to finish, what is left is given
    back unspent. A second signal ends it at once; the next worker takes its jobs over.
    """
    from longtake.cli.embedded_server_end import end_when_free
    from longtake.server.server import run_server
    from longtake.settings import load_settings

    if until_free is not None:
        end_when_free(until_free)

    given = _given(host=host, port=port, app=app, worker_concurrency=concurrency)
    run_server(load_settings().model_copy(update=given), with_worker=not no_worker)


def worker(app: App = None, concurrency: Concurrency = None) -> None:
    """Run a worker without a server until SIGTERM or Ctrl-C; on PostgreSQL as many as you like.

    A SQLite file belongs to one process: beside a server, which has a worker inside, this is refused.
    """
    from longtake.errors import DatabaseOwned
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
