"""Titles in a terminal: found by how people name them, printed, and matched with a TMDB show."""

import contextlib
import sys
from collections.abc import Iterator

import typer

from longtake.cli.server import LEAST_LENGTH, SEARCHED, WHOLE_LENGTH, Noun, ServerConnection, connect, match_end
from longtake.client import Client
from longtake.client.shapes import Candidate, Title
from longtake.errors import NotFound
from longtake.terminal.output import age, print_facts, print_line, print_note, print_table

MATCH_HINT = (
    "Choose with `longtake catalogue match {id} SHOW`; --none: TMDB does not have it; --automatic: look it up again."
)
QUESTION = "Which one is it? Type its number, n for none of them, or Enter to skip"
LIST_HINT = "`longtake catalogue list` lists the titles."
TITLE = Noun("title", "titles", lambda client: client.catalogue.list(limit=SEARCHED)["titles"], LIST_HINT)
HINTS = {
    "FORBIDDEN": "Ask the server's owner for an operator's token: `longtake token --role operator --user YOU`.",
    "NOT_FOUND": LIST_HINT,
    "REQUEST_INVALID": f"{LIST_HINT} --help shows the options.",
}


@contextlib.contextmanager
def connect_catalogue() -> Iterator[ServerConnection]:
    """Yield the server. On this machine's own server the user is an operator, without a log-in."""
    with connect(HINTS, role="operator") as server:
        yield server


def title_id(client: Client, given: str) -> str:
    """Return a title's id, given the id, the number at Bangumi, or the end of the id.

    One id in forty ends with eight digits, like a number. A title with that number comes first.
    """
    if len(given) >= WHOLE_LENGTH:
        return given
    number = int(given) if given.isascii() and given.isdecimal() else None
    if number is not None and (found := client.catalogue.list(bangumi_id=number, limit=1)["titles"]):
        return found[0]["id"]
    known = [title["id"] for title in TITLE.newest(client)]
    is_end = len(given) >= LEAST_LENGTH and any(one.endswith(given) for one in known)
    if number is not None and not is_end:
        hint = f"`longtake catalogue add --bangumi {number}` adds it. {LIST_HINT}"
        raise NotFound(f"No title has the Bangumi number {number}.", hint=hint)
    return match_end(TITLE, given, known)


def name_of(title: Title) -> str:
    """Return the title's name."""
    known = title["title_japanese"] or title["title_chinese"] or title["title_english"]
    return known or f"Bangumi {title['bangumi_id']}"


def print_title(title: Title) -> None:
    """Print all details of a title."""
    error = title["error"]
    size = f" ({title['poster_width']} × {title['poster_height']})" if title["poster_width"] else ""
    print_facts(
        {
            "id": title["id"],
            "bangumi": title["bangumi_id"],
            "japanese": title["title_japanese"],
            "chinese": title["title_chinese"],
            "english": title["title_english"],
            "year": title["year"],
            "poster": f"{title['poster_state']}{size}",
            "poster address": title["poster_url"],
            "thumbnail": title["thumbnail_url"],
            "poster source": title["poster_source"],
            "poster checked": age(title["poster_checked_at"]),
            "tmdb": _tmdb(title),
            "looked up": age(title["tmdb_looked_up_at"]),
            "next look-up": age(title["tmdb_next_look_up_at"]),
            "last error": error and f"{error['of']}: {error['message'] or ''} [{error['code']}], {age(error['at'])}",
            "created": age(title["created_at"]),
            "changed": age(title["updated_at"]),
        }
    )
    if title["tmdb_candidates"]:
        print_candidates(title["tmdb_candidates"])


def print_candidates(candidates: list[Candidate]) -> None:
    """Print the TMDB shows that may match a title, numbered."""
    print_table(
        ("number", "tmdb", "name", "original name", "first on air", "score"),
        [
            (number, one["tmdb_id"], one["name"], one["original_name"], one["first_air_date"], f"{one['score']:.0f}")
            for number, one in enumerate(candidates, 1)
        ],
        nothing="There are no candidates.",
        cut=("name", "original name"),
        spare=("first on air", "name"),
    )


def _tmdb(title: Title) -> str:
    if title["tmdb_id"] is None:
        by_hand = title["tmdb_found_by"] == "person"
        return "none, as a person has said" if by_hand else title["tmdb_state"].replace("_", " ")
    by = {"title": "by its name", "search": "by a search", "import": "in an import", "person": "by a person"}
    return f"{title['tmdb_id']}, found {by.get(title['tmdb_found_by'] or '', 'otherwise')}"


def describe_match(title: Title) -> str:
    """Return a sentence that says which TMDB show a title is."""
    name = name_of(title)
    if title["tmdb_id"] is not None:
        return f"{name} is {title['tmdb_id']} at TMDB."
    if title["tmdb_found_by"] == "person":
        return f"{name} is not at TMDB, and is not looked up again."
    words = {"in_doubt": "is in doubt", "not_found": "was not found", "waiting": "is being looked up"}
    return f"{name} {words.get(title['tmdb_state'], 'has no TMDB id')}."


def choose_match(client: Client, title: Title, *, as_json: bool) -> Title:
    """Show the candidates of a title; on a terminal, ask which one it is."""
    if as_json:
        return title
    print_line(describe_match(title))
    candidates = title["tmdb_candidates"]
    if candidates:
        print_candidates(candidates)
    if not candidates or not (sys.stdin.isatty() and sys.stdout.isatty()):
        print_note(MATCH_HINT.format(id=title["id"]))
        return title
    number = _ask(len(candidates))
    if number is None:
        print_note(f"Nothing was changed. {MATCH_HINT.format(id=title['id'])}")
        return title
    title = client.catalogue.choose(title["id"], candidates[number - 1]["tmdb_id"] if number else None)
    print_line(describe_match(title))
    return title


def _ask(most: int) -> int | None:
    """Return the chosen number, 0 for none of them, or None if the question was skipped."""
    while True:
        answer = str(typer.prompt(QUESTION, default="", show_default=False)).strip().lower()
        if not answer:
            return None
        if answer in {"n", "none"}:
            return 0
        if answer.isascii() and answer.isdecimal() and 1 <= int(answer) <= most:
            return int(answer)
        typer.echo(f"Type a number from 1 to {most}, n, or nothing.", err=True)
