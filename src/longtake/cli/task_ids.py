"""Ids of tasks as people type them: whole, or only the end that bars and file names show."""

from collections.abc import Sequence

from longtake.client import Client
from longtake.errors import NotFound

SHORT_LENGTH = 8
#: With fewer characters a slip of the finger would soon mean another task.
FEWEST = 4
WHOLE_LENGTH = 36
LOOKED_THROUGH = 200
HINT = "`longtake tasks list` lists yours."


def short(task_id: str) -> str:
    """Return the end of an id; its beginning is a time, which tasks of one minute share."""
    return task_id[-SHORT_LENGTH:]


def whole_id(client: Client, given: str) -> str:
    """Return the id of one's own task that ends so."""
    return whole_ids(client, [given])[0]


def whole_ids(client: Client, given: Sequence[str]) -> list[str]:
    """Return the ids of one's own tasks that end so, each once; whole ones are for the server to know."""
    known: list[str] = []
    if any(len(one) < WHOLE_LENGTH for one in given):
        known = [task["id"] for task in client.tasks.list(limit=LOOKED_THROUGH)["tasks"]]
    return list(
        dict.fromkeys(one if len(one) >= WHOLE_LENGTH else match_end(one, known, "task", HINT) for one in given)
    )


def match_end(end: str, known: Sequence[str], what: str, hint: str) -> str:
    """Return the one of the newest ids that ends so."""
    if len(end) < FEWEST:
        raise NotFound(f"{end!r} is too short for the end of a {what}'s id: {FEWEST} characters at least.", hint=hint)
    found = [one for one in known if one.endswith(end.lower())]
    if not found:
        raise NotFound(f"None of the newest {LOOKED_THROUGH} {what}s has an id that ends with {end!r}.", hint=hint)
    if len(found) > 1:
        raise NotFound(f"Several {what}s have ids that end with {end!r}: {', '.join(found)}.", hint="Type more of it.")
    return found[0]
