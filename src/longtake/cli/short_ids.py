"""Short ids: the ends of ids that tables, bars and file names show, and that people may type."""

from collections.abc import Sequence

from longtake.client import Client
from longtake.errors import NotFound

SHORT_LENGTH = 8
#: With fewer characters a typing error could easily name another task.
LEAST_LENGTH = 4
WHOLE_LENGTH = 36
SEARCHED = 200
HINT = "`longtake tasks list` lists your tasks."


def short(task_id: str) -> str:
    """Return the end of an id. Its beginning is a time, which tasks of the same minute share."""
    return task_id[-SHORT_LENGTH:]


def whole_id(client: Client, given: str) -> str:
    """Return the id of the user's task that ends like this."""
    return whole_ids(client, [given])[0]


def whole_ids(client: Client, given: Sequence[str]) -> list[str]:
    """Return the ids of the user's tasks that end like these, each once. Whole ids are checked by the server."""
    known: list[str] = []
    if any(len(one) < WHOLE_LENGTH for one in given):
        known = [task["id"] for task in client.tasks.list(limit=SEARCHED)["tasks"]]
    return list(
        dict.fromkeys(one if len(one) >= WHOLE_LENGTH else match_end(one, known, "task", HINT) for one in given)
    )


def match_end(end: str, known: Sequence[str], what: str, hint: str) -> str:
    """Return the only id that ends like this; raise NotFound if there is none or more than one."""
    if len(end) < LEAST_LENGTH:
        raise NotFound(
            f"{end!r} is too short for the end of a {what}'s id: type at least {LEAST_LENGTH} characters.", hint=hint
        )
    found = [one for one in known if one.endswith(end.lower())]
    if not found:
        raise NotFound(f"None of the newest {SEARCHED} {what}s has an id that ends with {end!r}.", hint=hint)
    if len(found) > 1:
        raise NotFound(
            f"Several {what}s have ids that end with {end!r}: {', '.join(found)}.", hint="Type more characters of it."
        )
    return found[0]
