"""`longtake catalogue sync|refresh-calendar|status|download|stop|start`: the work on titles."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated

import typer

from longtake.cli.facts import AsJson
from longtake.cli.failures import REFUSED

if TYPE_CHECKING:
    from longtake.cli.user_server import Reached

Wait = Annotated[
    bool, typer.Option("--wait", help="Show how it gets on until it is done; Ctrl-C ends the waiting only.")
]


def sync(wait: Wait = False, as_json: AsJson = False) -> None:
    """Fetch posters and look up TMDB ids that are due, as happens by itself every hour."""
    _begin(lambda reached: reached.client.catalogue.sync(), "The sync", wait=wait, as_json=as_json)


def refresh_calendar(wait: Wait = False, as_json: AsJson = False) -> None:
    """Make titles of what Bangumi says is on air, then sync, as happens by itself every day."""
    begin: Callable[[Reached], str] = lambda reached: reached.client.catalogue.refresh_calendar()  # noqa: E731
    _begin(begin, "The refresh of the calendar", wait=wait, as_json=as_json)


def status(as_json: AsJson = False) -> None:
    """Show how many titles have their poster and TMDB id, what is under way, who works on it, and what comes next."""
    from longtake.cli.catalogue_access import reach_catalogue
    from longtake.cli.catalogue_views import print_status
    from longtake.cli.output import print_json

    with reach_catalogue() as reached:
        found = reached.client.catalogue.status()
    print_json(found) if as_json else print_status(found)


def download(
    title: Annotated[
        str, typer.Argument(metavar="ID", help="The title's id, how that ends, or the title's number at Bangumi.")
    ],
    url: Annotated[str, typer.Argument(metavar="URL", help="The address of a picture.")],
    as_json: AsJson = False,
) -> None:
    """Give a title this poster, and fetch it before anything else."""
    from longtake.cli.catalogue_access import reach_catalogue, title_id
    from longtake.cli.catalogue_progress import see_through
    from longtake.cli.operator_http import error_of
    from longtake.cli.output import print_json, print_line

    with reach_catalogue() as reached:
        known = title_id(reached.client, title)
        [begun] = reached.client.catalogue.download({known: url})
        if refused := begun["refused"]:
            raise error_of({"code": refused["code"], "detail": refused["message"], "hint": refused["hint"]})
        see_through(reached)
    if as_json:
        print_json(begun)
    else:
        print_line(f"{known}: {'the poster is being fetched' if begun['queued'] else 'the poster is there already'}.")


def stop(as_json: AsJson = False) -> None:
    """Let no work on the catalogue begin, on any machine, until `start`; waits up to 20 s for what is under way."""
    from longtake.cli.catalogue_access import reach_catalogue
    from longtake.cli.output import print_json, print_line

    with reach_catalogue() as reached:
        at_rest = reached.client.catalogue.stop()
    if as_json:
        print_json({"at_rest": at_rest})
    elif at_rest:
        print_line("The catalogue is stopped, and all is at rest. `longtake catalogue start` goes on.")
    else:
        print_line("The catalogue is stopped, but something is still under way: `longtake catalogue status`.")
    if not at_rest:
        raise typer.Exit(REFUSED)


def start(as_json: AsJson = False) -> None:
    """Go on with the work on the catalogue after `stop`."""
    from longtake.cli.catalogue_access import reach_catalogue
    from longtake.cli.output import print_json, print_line

    with reach_catalogue() as reached:
        reached.client.catalogue.start()
    later = ", as soon as a server runs: `longtake serve`" if reached.embedded else ""
    print_json({"started": True}) if as_json else print_line(f"The catalogue goes on with what waits{later}.")


def _begin(begin: "Callable[[Reached], str]", what: str, *, wait: bool, as_json: bool) -> None:
    """Begin it; where the server ends with this command it is waited for, or nothing of it would happen."""
    from longtake.cli.catalogue_access import reach_catalogue
    from longtake.cli.catalogue_progress import is_busy, see_through, watch
    from longtake.cli.catalogue_views import describe
    from longtake.cli.output import print_json, print_line

    with reach_catalogue() as reached:
        job_id = begin(reached)
        ended = watch(reached) if wait else see_through(reached)
    if as_json:
        print_json({"job_id": job_id} | ({} if ended is None else {"status": ended}))
    elif ended is None:
        print_line(f"{what} has begun: job {job_id}. `longtake catalogue status` shows how far it is.")
    else:
        print_line(f"{what} is {'not yet ' if is_busy(ended) else ''}done: {describe(ended)}.")
