"""`longtake catalogue …`: titles with their posters and TMDB ids, and the work on them."""

from collections.abc import Callable
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from longtake.cli.catalogue_imports import (
    describe,
    finish_locally,
    import_title,
    import_titles,
    is_busy,
    print_status,
    watch,
)
from longtake.cli.catalogue_titles import (
    choose_match,
    connect_catalogue,
    describe_match,
    name_of,
    print_title,
    title_id,
)
from longtake.cli.operator_access import error_of
from longtake.cli.server import ServerConnection, shown_id
from longtake.terminal.commands import AsJson, Commands, Yes, confirm_deletion, delete_each
from longtake.terminal.failures import REFUSED
from longtake.terminal.output import print_json, print_line, print_page

app = Commands()

Id = Annotated[
    str, typer.Argument(metavar="ID", help="The title's id, the end of it, or the title's number at Bangumi.")
]

Wait = Annotated[bool, typer.Option("--wait", help="Show the progress until it is done; Ctrl-C ends only the waiting.")]

NAME_SHOWN = 60


class Poster(StrEnum):
    """The state of a poster."""

    NONE = "none"
    REMOTE = "remote"
    STORED = "stored"


class Tmdb(StrEnum):
    """The state of a TMDB look-up."""

    FOUND = "found"
    IN_DOUBT = "in_doubt"
    NOT_FOUND = "not_found"
    WAITING = "waiting"
    NONE = "none"


@app.command(epilog="Example: longtake catalogue add 'けいおん!' --year 2009 --bangumi 1424")
def add(
    japanese: Annotated[
        str | None, typer.Argument(metavar="NAME", help="The name in Japanese; --bangumi is enough without it.")
    ] = None,
    bangumi: Annotated[int | None, typer.Option(metavar="ID", help="Its number at Bangumi.")] = None,
    chinese: Annotated[str | None, typer.Option(metavar="NAME", help="The name in Chinese.")] = None,
    english: Annotated[str | None, typer.Option(metavar="NAME", help="The name in English.")] = None,
    year: Annotated[int | None, typer.Option(help="The year in which it first aired.")] = None,
    poster: Annotated[str | None, typer.Option(metavar="URL", help="The address of its poster.")] = None,
    tmdb: Annotated[int | None, typer.Option(metavar="ID", help="Its number at TMDB, if you know it.")] = None,
    as_json: AsJson = False,
) -> None:
    """Add or update a title; its poster is fetched and its TMDB id looked up."""
    given = {
        "title_japanese": japanese, "bangumi_id": bangumi, "title_chinese": chinese, "title_english": english,
        "year": year, "poster": poster, "tmdb_id": tmdb,
    }  # fmt: skip
    if not any((japanese, chinese, english, bangumi)):
        raise typer.BadParameter("a title has a name, or --bangumi ID.", param_hint="NAME")
    import_title({name: value for name, value in given.items() if value is not None}, as_json=as_json)


@app.command("import", epilog="Example: longtake catalogue import titles.csv")
def import_file(
    file: Annotated[
        Path, typer.Argument(metavar="FILE", help="CSV with a header, or JSON Lines (.jsonl, .ndjson); - reads a pipe.")
    ],
    as_json: AsJson = False,
) -> None:
    """Add or update the titles listed in a file of any size; bad lines are reported and skipped. Twice changes nothing.

    Columns are bangumi_id, title_japanese, title_chinese, title_english, year, poster and tmdb_id.
    """
    import_titles(file, as_json=as_json)


@app.command("list", epilog="Example: longtake catalogue list --tmdb in_doubt")
def list_titles(
    poster: Annotated[Poster | None, typer.Option(help="Only those whose poster is none, remote or stored.")] = None,
    tmdb: Annotated[
        Tmdb | None, typer.Option(help="Only those whose TMDB id is found, in_doubt, not_found, waiting or none.")
    ] = None,
    in_trouble: Annotated[bool, typer.Option("--in-trouble", help="Only titles whose last error stands.")] = False,
    year: Annotated[int | None, typer.Option(min=0, max=9_999, help="Only those of this year.")] = None,
    before: Annotated[str | None, typer.Option(metavar="ID", help="Only titles older than this one.")] = None,
    limit: Annotated[int, typer.Option(min=1, max=200, help="How many at most.")] = 50,
    as_json: AsJson = False,
) -> None:
    """List titles, the newest first."""
    filters: dict[str, Any] = {"in_trouble": in_trouble, "year": year, "before": before, "limit": limit}
    with connect_catalogue() as server:
        found = server.client.catalogue.list(poster=poster, tmdb=tmdb, **filters)
    filtered = bool(poster or tmdb or in_trouble or year or before)
    print_page(
        found,
        ("id", "bangumi", "title", "year", "poster", "tmdb", "trouble"),
        (
            (
                shown_id(one["id"]), one["bangumi_id"], name_of(one)[:NAME_SHOWN], one["year"], one["poster_state"],
                one["tmdb_id"] or one["tmdb_state"], one["error"] and f"{one['error']['of']}: {one['error']['code']}",
            )
            for one in found["titles"]
        ),
        nothing="No titles match." if filtered else "There are no titles.",
        cut=("title", "trouble"),
        spare=("year", "trouble"),
        as_json=as_json,
    )  # fmt: skip


@app.command(epilog="Example: longtake catalogue show 1424")
def show(title: Id, as_json: AsJson = False) -> None:
    """Show all details of one title: poster, TMDB id or candidates, and the last error."""
    with connect_catalogue() as server:
        found = server.client.catalogue.get(title_id(server.client, title))
    print_json(found) if as_json else print_title(found)


@app.command(epilog="Example: longtake catalogue delete 1424 --yes")
def delete(title: Id, yes: Yes = False, as_json: AsJson = False) -> None:
    """Delete a title, and its poster if no other title has it."""
    # Asked before the server is contacted, so that a missing --yes ends the command at once.
    confirm_deletion([title], "title", "Its poster goes as well, if no other title has it.", yes=yes)
    with connect_catalogue() as server:
        known = title_id(server.client, title)
        delete_each([known], server.client.catalogue.delete, as_json=as_json)


@app.command(epilog="Example: longtake catalogue match 1424 42253")
def match(
    title: Id,
    tmdb_id: Annotated[int | None, typer.Argument(metavar="SHOW", min=1, help="The show's number at TMDB.")] = None,
    none: Annotated[bool, typer.Option("--none", help="TMDB does not have it; it is not looked up again.")] = False,
    automatic: Annotated[
        bool, typer.Option("--automatic", help="Forget what was chosen, and look it up again.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Set the TMDB show of a title; no look-up overwrites it. Without a choice, show the candidates."""
    if (tmdb_id is not None) + none + automatic > 1:
        raise typer.BadParameter("say one of SHOW, --none and --automatic.", param_hint="SHOW")
    with connect_catalogue() as server:
        client = server.client
        known = title_id(client, title)
        if automatic:
            client.catalogue.look_up_again(known)
            finish_locally(server)
            found = client.catalogue.get(known)
        elif none or tmdb_id is not None:
            found = client.catalogue.choose(known, tmdb_id)
        else:
            found = choose_match(client, client.catalogue.get(known), as_json=as_json)
    if as_json:
        print_json(found)
    elif none or automatic or tmdb_id is not None:
        print_line(describe_match(found))


@app.command(epilog="Example: longtake catalogue sync --wait")
def sync(wait: Wait = False, as_json: AsJson = False) -> None:
    """Fetch posters and look up TMDB ids that are due; a schedule does this every hour."""
    _start_work(lambda server: server.client.catalogue.sync(), "The sync", wait=wait, as_json=as_json)


@app.command("refresh-calendar", epilog="Example: longtake catalogue refresh-calendar --wait")
def refresh_calendar(wait: Wait = False, as_json: AsJson = False) -> None:
    """Add the titles in Bangumi's calendar, then sync; a schedule does this every day."""
    what = "The refresh of the calendar"
    _start_work(lambda server: server.client.catalogue.refresh_calendar(), what, wait=wait, as_json=as_json)


@app.command(epilog="Example: longtake catalogue status")
def status(as_json: AsJson = False) -> None:
    """Show how many titles have a poster and TMDB id, what is running, and when the next sync is due."""
    with connect_catalogue() as server:
        found = server.client.catalogue.status()
    print_json(found) if as_json else print_status(found)


@app.command(epilog="Example: longtake catalogue download 1424 https://lain.bgm.tv/pic/cover/l/aa/bb/1424_x.jpg")
def download(
    title: Id,
    url: Annotated[str, typer.Argument(metavar="URL", help="The address of a picture.")],
    as_json: AsJson = False,
) -> None:
    """Give a title this poster, and fetch it before anything else."""
    with connect_catalogue() as server:
        known = title_id(server.client, title)
        [outcome] = server.client.catalogue.download({known: url})
        if refused := outcome["refused"]:
            raise error_of(refused["code"], refused["message"], refused["hint"])
        finish_locally(server)
    if as_json:
        print_json(outcome)
    else:
        print_line(f"{known}: the poster is {'being fetched' if outcome['queued'] else 'already stored'}.")


@app.command(epilog="Example: longtake catalogue stop")
def stop(as_json: AsJson = False) -> None:
    """Stop work on the catalogue, on all machines, until `start`; waits up to 20 s for running work."""
    with connect_catalogue() as server:
        at_rest = server.client.catalogue.stop()
    if as_json:
        print_json({"at_rest": at_rest})
    elif at_rest:
        print_line("The catalogue is stopped, and no work is running. `longtake catalogue start` resumes it.")
    else:
        print_line("The catalogue is stopped, but some work is still running: `longtake catalogue status`.")
    if not at_rest:
        raise typer.Exit(REFUSED)


@app.command(epilog="Example: longtake catalogue start")
def start(as_json: AsJson = False) -> None:
    """Resume work on the catalogue after `stop`."""
    with connect_catalogue() as server:
        server.client.catalogue.start()
    later = ", as soon as a server runs: `longtake serve`" if server.embedded else ""
    print_json({"started": True}) if as_json else print_line(f"Work on the catalogue is resumed{later}.")


def _start_work(start: Callable[[ServerConnection], str], what: str, *, wait: bool, as_json: bool) -> None:
    """Start the work. If the server ends with this command, wait for it, or nothing would be done."""
    with connect_catalogue() as server:
        job_id = start(server)
        status = watch(server) if wait else finish_locally(server)
    if as_json:
        print_json({"job_id": job_id} | ({} if status is None else {"status": status}))
    elif status is None:
        print_line(f"{what} has started: job {job_id}. `longtake catalogue status` shows how far it is.")
    else:
        print_line(f"{what} is {'not yet ' if is_busy(status) else ''}done: {describe(status)}.")
