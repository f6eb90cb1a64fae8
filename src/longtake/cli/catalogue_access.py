"""The server whose catalogue a command is about, and titles as people name them."""

import contextlib
from collections.abc import Iterator

from longtake.cli.task_ids import LOOKED_THROUGH, WHOLE_LENGTH, match_end
from longtake.cli.user_server import Reached, reach
from longtake.client import Client
from longtake.errors import NotFound

LIST_HINT = "`longtake catalogue list` shows those there are."
HINTS = {
    "FORBIDDEN": "Whoever has that server gives out operators' tokens: `longtake token --role operator --user YOU`.",
    "NOT_FOUND": LIST_HINT,
    "REQUEST_INVALID": f"{LIST_HINT} --help shows what else there is.",
}


@contextlib.contextmanager
def reach_catalogue() -> Iterator[Reached]:
    """Yield the server; its machine's owner asks as an operator, without any log-in."""
    with reach(HINTS, role="operator") as reached:
        yield reached


def title_id(client: Client, given: str) -> str:
    """Return the id of the title that is meant: by its id, by how that ends, or by its number at Bangumi."""
    if given.isascii() and given.isdecimal():
        return _of_bangumi(client, int(given))
    if len(given) >= WHOLE_LENGTH:
        return given
    known = [title["id"] for title in client.catalogue.list(limit=LOOKED_THROUGH)["titles"]]
    return match_end(given, known, "title", LIST_HINT)


def _of_bangumi(client: Client, number: int) -> str:
    found = client.catalogue.list(bangumi_id=number, limit=1)["titles"]
    if not found:
        hint = f"`longtake catalogue add --bangumi {number}` adds it. {LIST_HINT}"
        raise NotFound(f"There is no title with the number {number} at Bangumi.", hint=hint)
    return found[0]["id"]
