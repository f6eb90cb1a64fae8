"""`longtake sandbox`."""

import json
from typing import TYPE_CHECKING, Annotated

import typer

from longtake.cli.facts import AsJson

if TYPE_CHECKING:
    from longtake_sandbox.options import Limit


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
    quiet: Annotated[bool, typer.Option("--quiet", help="Do not tell submits, callbacks and faults.")] = False,
    as_json: AsJson = False,
) -> None:
    """Run a sandbox: a local server that speaks for the providers, draws, takes its time, and fails when told.

    Nothing leaves this machine and nothing costs anything.
    """
    from longtake.cli.output import print_line
    from longtake.errors import CannotListen
    from longtake_sandbox.options import FASTSTART, SECONDS, Options
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
        # One line, whatever follows: a program that has started the sandbox reads just this.
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
    from longtake_sandbox.options import Limit

    try:
        return Limit.parse(text) if text else None
    except ValueError:
        raise typer.BadParameter(f"{text!r} is not N/SECONDS, such as 20/10", param_hint=option) from None
