"""Short ids: the ends of ids that tables, bars and file names show, and that people may type."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from longtake.client import Client
from longtake.errors import NotFound

SHORT_LENGTH = 8
#: With fewer characters a typing error could easily name something else.
LEAST_LENGTH = 4
WHOLE_LENGTH = 36
SEARCHED = 200


@dataclass(frozen=True)
class Noun:
    """What an id names: its words in sentences, the hint that says where ids are listed, and the newest ones."""

    one: str
    many: str
    hint: str
    newest: Callable[[Client], Iterable[Any]]


TASK = Noun(
    "task",
    "tasks",
    "`longtake tasks list` lists your tasks.",
    lambda client: client.tasks.list(limit=SEARCHED)["tasks"],
)
RUN = Noun(
    "run", "runs", "`longtake runs list` lists your runs.", lambda client: client.runs.list(limit=SEARCHED)["runs"]
)
ASSET = Noun(
    "asset",
    "assets",
    "`longtake assets list` lists your assets.",
    lambda client: client.assets.list(limit=SEARCHED)["assets"],
)

WEBHOOK = Noun(
    "webhook", "webhooks", "`longtake webhooks list` lists your webhooks.", lambda client: client.webhooks.list()
)


def deliveries_of(webhook_id: str) -> Noun:
    """Return what an id of this webhook's deliveries names."""
    hint = f"`longtake webhooks deliveries {webhook_id}` lists them."
    return Noun(
        "delivery",
        "deliveries",
        hint,
        lambda client: client.webhooks.deliveries(webhook_id, limit=SEARCHED)["deliveries"],
    )


def short(one_id: str) -> str:
    """Return the end of an id. Its beginning is a time, which ids of the same minute share."""
    return one_id[-SHORT_LENGTH:]


def whole_id(client: Client, noun: Noun, given: str) -> str:
    """Return the id that ends like this."""
    return whole_ids(client, noun, [given])[0]


def whole_ids(client: Client, noun: Noun, given: Sequence[str]) -> list[str]:
    """Return the ids that end like these, each once. Whole ids are checked by the server."""
    known: list[str] = []
    if any(len(one) < WHOLE_LENGTH for one in given):
        known = [one["id"] for one in noun.newest(client)]
    return list(dict.fromkeys(one if len(one) >= WHOLE_LENGTH else match_end(noun, one, known) for one in given))


def match_end(noun: Noun, end: str, known: Sequence[str]) -> str:
    """Return the only id that ends like this; raise NotFound if there is none or more than one."""
    if len(end) < LEAST_LENGTH:
        raise NotFound(
            f"{end!r} is too short for the end of a {noun.one}'s id: type at least {LEAST_LENGTH} characters.",
            hint=noun.hint,
        )
    found = [one for one in known if one.endswith(end.lower())]
    if not found:
        raise NotFound(f"None of the newest {SEARCHED} {noun.many} has an id that ends with {end!r}.", hint=noun.hint)
    if len(found) > 1:
        raise NotFound(
            f"Several {noun.many} have ids that end with {end!r}: {', '.join(found)}.",
            hint="Type more characters of it.",
        )
    return found[0]
