"""`longtake catalogue …`: titles with their posters and their ids at TMDB."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from longtake.cli.catalogue_match import match
from longtake.cli.catalogue_work import download, refresh_calendar, start, status, stop, sync
from longtake.cli.deletion import Yes
from longtake.cli.facts import AsJson

app = typer.Typer(help="Keep titles with their posters and TMDB ids; see and steer the sync.", no_args_is_help=True)

Id = Annotated[
    str, typer.Argument(metavar="ID", help="The title's id, how that ends, or the title's number at Bangumi.")
]


class Poster(StrEnum):
    """Where a poster is."""

    NONE = "none"
    REMOTE = "remote"
    STORED = "stored"


class Tmdb(StrEnum):
    """How a look-up stands."""

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
    year: Annotated[int | None, typer.Option(help="The year in which it was first on air.")] = None,
    poster: Annotated[str | None, typer.Option(metavar="URL", help="The address of its poster.")] = None,
    tmdb: Annotated[int | None, typer.Option(metavar="ID", help="Its number at TMDB, if you know it.")] = None,
    as_json: AsJson = False,
) -> None:
    """Add a title, or what is new about one that is there; its poster is fetched and its TMDB id looked up."""
    from longtake.cli.catalogue_imports import bring_one

    given = {
        "title_japanese": japanese, "bangumi_id": bangumi, "title_chinese": chinese, "title_english": english,
        "year": year, "poster": poster, "tmdb_id": tmdb,
    }  # fmt: skip
    if not any((japanese, chinese, english, bangumi)):
        raise typer.BadParameter("a title has a name, or --bangumi ID.", param_hint="NAME")
    bring_one({name: value for name, value in given.items() if value is not None}, as_json=as_json)


@app.command("import", epilog="Example: longtake catalogue import titles.csv")
def import_file(
    file: Annotated[
        Path, typer.Argument(metavar="FILE", help="CSV with a header, or JSON Lines (.jsonl, .ndjson); - reads a pipe.")
    ],
    as_json: AsJson = False,
) -> None:
    """Add the titles that a file lists, in any number: bad lines are told, good ones go in. Twice is as good as once.

    Columns are bangumi_id, title_japanese, title_chinese, title_english, year, poster and tmdb_id.
    """
    from longtake.cli.catalogue_imports import bring_file

    bring_file(file, as_json=as_json)


@app.command("list", epilog="Example: longtake catalogue list --tmdb in_doubt")
def list_titles(
    poster: Annotated[Poster | None, typer.Option(help="Only those whose poster is none, remote or stored.")] = None,
    tmdb: Annotated[
        Tmdb | None, typer.Option(help="Only those whose TMDB id is found, in_doubt, not_found, waiting or none.")
    ] = None,
    in_trouble: Annotated[bool, typer.Option("--in-trouble", help="Only those whose last error stands.")] = False,
    year: Annotated[int | None, typer.Option(min=0, max=9_999, help="Only those of this year.")] = None,
    before: Annotated[str | None, typer.Option(metavar="ID", help="Only titles older than this one.")] = None,
    limit: Annotated[int, typer.Option(min=1, max=200, help="How many at most.")] = 50,
    as_json: AsJson = False,
) -> None:
    """List titles, the newest first."""
    from longtake.cli.catalogue_access import reach_catalogue
    from longtake.cli.catalogue_views import print_titles
    from longtake.cli.output import print_json

    wanted: dict[str, Any] = {"in_trouble": in_trouble, "year": year, "before": before, "limit": limit}
    with reach_catalogue() as reached:
        found = reached.client.catalogue.list(
            poster=None if poster is None else poster.value, tmdb=None if tmdb is None else tmdb.value, **wanted
        )
    print_json(found) if as_json else print_titles(found)


@app.command(epilog="Example: longtake catalogue show 1424")
def show(title: Id, as_json: AsJson = False) -> None:
    """Show one title with all that is known of it: poster, TMDB id or what it may be, and what went wrong last."""
    from longtake.cli.catalogue_access import reach_catalogue, title_id
    from longtake.cli.catalogue_views import print_title
    from longtake.cli.output import print_json

    with reach_catalogue() as reached:
        found = reached.client.catalogue.get(title_id(reached.client, title))
    print_json(found) if as_json else print_title(found)


@app.command(epilog="Example: longtake catalogue delete 1424 --yes")
def delete(title: Id, yes: Yes = False, as_json: AsJson = False) -> None:
    """Delete a title, and its poster if no other title has it."""
    from longtake.cli.catalogue_access import reach_catalogue, title_id
    from longtake.cli.deletion import confirm_deletion, delete_each

    # Where nobody can be asked, this ends before any server is.
    confirm_deletion([title], "title", "Its poster goes as well, if no other title has it.", yes=yes)
    with reach_catalogue() as reached:
        known = title_id(reached.client, title)
        delete_each([known], reached.client.catalogue.delete, as_json=as_json)


app.command(epilog="Example: longtake catalogue match 1424 42253")(match)
app.command(epilog="Example: longtake catalogue sync --wait")(sync)
app.command("refresh-calendar", epilog="Example: longtake catalogue refresh-calendar --wait")(refresh_calendar)
app.command(epilog="Example: longtake catalogue status")(status)
app.command(epilog="Example: longtake catalogue download 1424 https://lain.bgm.tv/pic/cover/l/aa/bb/1424_x.jpg")(
    download
)
app.command(epilog="Example: longtake catalogue stop")(stop)
app.command(epilog="Example: longtake catalogue start")(start)
