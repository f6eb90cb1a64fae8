"""`longtake catalogue match`: which show of TMDB a title is, chosen by a person."""

import sys
from typing import TYPE_CHECKING, Annotated

import typer

from longtake.cli.facts import AsJson

if TYPE_CHECKING:
    from longtake.client import Client
    from longtake.client.shapes import Title

HOW = "Choose by `longtake catalogue match {id} SHOW`; --none: TMDB does not have it; --automatic: look again."
QUESTION = "Which one is it? Its number, n for none of them, Enter to leave it"


def match(
    title: Annotated[
        str, typer.Argument(metavar="ID", help="The title's id, how that ends, or the title's number at Bangumi.")
    ],
    tmdb_id: Annotated[int | None, typer.Argument(metavar="SHOW", min=1, help="The show's number at TMDB.")] = None,
    none: Annotated[bool, typer.Option("--none", help="TMDB does not have it; it is not looked up again.")] = False,
    automatic: Annotated[
        bool, typer.Option("--automatic", help="Forget what was chosen, and look it up again.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Say which show of TMDB a title is; nothing overwrites that. Without a choice you see what it may be."""
    from longtake.cli.catalogue_access import reach_catalogue, title_id
    from longtake.cli.catalogue_progress import see_through
    from longtake.cli.output import print_json, print_line

    if (tmdb_id is not None) + none + automatic > 1:
        raise typer.BadParameter("say one of SHOW, --none and --automatic.", param_hint="SHOW")
    with reach_catalogue() as reached:
        client = reached.client
        known = title_id(client, title)
        if automatic:
            client.catalogue.look_up_again(known)
            see_through(reached)
            found = client.catalogue.get(known)
        elif none or tmdb_id is not None:
            found = client.catalogue.choose(known, tmdb_id)
        else:
            found = _choose(client, client.catalogue.get(known), as_json=as_json)
    if as_json:
        print_json(found)
    elif none or automatic or tmdb_id is not None:
        print_line(told(found))


def told(title: "Title") -> str:
    """Return in a sentence which show a title is."""
    from longtake.cli.catalogue_views import name_of

    name = name_of(title)
    if title["tmdb_id"] is not None:
        return f"{name} is {title['tmdb_id']} at TMDB."
    if title["tmdb_found_by"] == "person":
        return f"{name} is not at TMDB, and is not looked up again."
    words = {"in_doubt": "is in doubt", "not_found": "was not found", "waiting": "is being looked up"}
    return f"{name} {words.get(title['tmdb_state'], 'has no TMDB id')}."


def _choose(client: "Client", title: "Title", *, as_json: bool) -> "Title":
    """Show what a title may be; whoever sits at a terminal is asked."""
    from longtake.cli.catalogue_views import print_candidates
    from longtake.cli.output import print_line, print_note

    if as_json:
        return title
    print_line(told(title))
    candidates = title["tmdb_candidates"]
    if candidates:
        print_candidates(candidates)
    if not candidates or not (sys.stdin.isatty() and sys.stdout.isatty()):
        print_note(HOW.format(id=title["id"]))
        return title
    number = _ask(len(candidates))
    if number is None:
        print_note(f"Nothing was changed. {HOW.format(id=title['id'])}")
        return title
    title = client.catalogue.choose(title["id"], candidates[number - 1]["tmdb_id"] if number else None)
    print_line(told(title))
    return title


def _ask(most: int) -> int | None:
    """Return the number that was chosen; 0 is none of them, None that nothing was."""
    while True:
        answer = str(typer.prompt(QUESTION, default="", show_default=False)).strip().lower()
        if not answer:
            return None
        if answer in {"n", "none"}:
            return 0
        if answer.isascii() and answer.isdecimal() and 1 <= int(answer) <= most:
            return int(answer)
        typer.echo(f"Type a number from 1 to {most}, n, or nothing.", err=True)
