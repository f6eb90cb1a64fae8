"""Which show of TMDB a title is: what a look-up found or left in doubt, and what a person chose."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import orjson
from sqlalchemy import BigInteger, Float, Row, Text, Update, cast, literal, update

from longtake.capabilities.catalogue.match_score import Candidate
from longtake.capabilities.catalogue.queries import get_title
from longtake.capabilities.catalogue.tables import SEARCH, titles
from longtake.capabilities.catalogue.title_errors import cleared_error
from longtake.capabilities.catalogue.titles import request_sync
from longtake.db.dialects import NOW, SQLITE, Identifier, Json, later
from longtake.db.prepared import ForMany, Given
from longtake.engine.control import cancel_of_subjects

if TYPE_CHECKING:
    from longtake.db import Transaction
    from longtake.engine.engine import Engine

#: A look-up that found nothing is repeated after a week.
REST_SECONDS = 7 * 86_400.0


def write_found(tx: Transaction, found: Mapping[str, int], how: str) -> None:
    """Write the ids found for titles, which the caller has locked. A person's choice stays."""
    _FOUND.run(tx, [{"title": title, "show": show, "how": how} for title, show in found.items()])


def write_doubtful(tx: Transaction, doubtful: Mapping[str, Sequence[Candidate]]) -> None:
    """Write the candidates that a person may choose from; without any, the title counts as not found."""
    _DOUBTFUL.run(tx, [{"title": title, "candidates": _as_json(some)} for title, some in doubtful.items()])


def choose_show(tx: Transaction, title_id: str, tmdb_id: int | None) -> Row[Any]:
    """Write a person's choice, which nothing overwrites; None means that TMDB does not have the title."""
    get_title(tx, title_id)
    cancel_of_subjects(tx, [title_id], [SEARCH], "a person chose the show")
    chosen = {"tmdb_id": tmdb_id, "tmdb_found_by": "person", "tmdb_candidates": None, "tmdb_due_at": None}
    _change(tx, title_id, **chosen, **cleared_error("tmdb"))
    return get_title(tx, title_id)


def forget_show(tx: Transaction, engine: Engine, title_id: str, request_id: str | None) -> Row[Any]:
    """Take a title's match back, and have it looked up again at once."""
    row = get_title(tx, title_id)
    due = {"tmdb_due_at": NOW if row.title_japanese else None}
    _change(tx, title_id, tmdb_id=None, tmdb_found_by=None, tmdb_candidates=None, tmdb_looked_up_at=None, **due)
    request_sync(tx, engine, request_id)
    return get_title(tx, title_id)


def _change(tx: Transaction, title_id: str, **change: Any) -> None:
    tx.execute(update(titles).where(titles.c.id == title_id).values(**change, updated_at=NOW))


def _as_json(candidates: Sequence[Candidate]) -> str | None:
    return orjson.dumps([each.as_dict() for each in candidates]).decode() if candidates else None


def _looked_up(given: Given) -> Update:
    change = update(titles).where(titles.c.id == given["title"], titles.c.tmdb_found_by.is_(None))
    return change.values(tmdb_looked_up_at=NOW, updated_at=NOW, **cleared_error("tmdb"))


def _found(given: Given, _dialect: str) -> Update:
    new = {"tmdb_id": given["show"], "tmdb_found_by": given["how"]}
    return _looked_up(given).values(**new, tmdb_candidates=None, tmdb_due_at=None)


def _doubtful(given: Given, dialect: str) -> Update:
    rest = later(literal(REST_SECONDS, Float))
    # Passed as text: PostgreSQL would unnest an array of lists into single elements.
    candidates = given["candidates"] if dialect == SQLITE else cast(given["candidates"], Json)
    return _looked_up(given).values(tmdb_candidates=candidates, tmdb_due_at=rest)


#: Built once: building a statement takes longer than running it.
_FOUND = ForMany(_found, title=Identifier(), show=BigInteger(), how=Text())
_DOUBTFUL = ForMany(_doubtful, title=Identifier(), candidates=Text())
