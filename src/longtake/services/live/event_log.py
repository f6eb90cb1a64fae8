"""Reading the log: what came after a place for everybody, and what one user has missed."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from longtake.engine.events import Event, forgotten_until, is_held_up, read_events, read_events_of
from longtake.services.live.cursors import Cursor, current_place, reached
from longtake.services.live.sse import Told, tell

if TYPE_CHECKING:
    from longtake.db import Transaction


@dataclass(frozen=True, slots=True)
class Round:
    """What one look at the log has found."""

    #: Up to here everything has been read.
    place: Cursor
    events: list[Event] = field(default_factory=list)
    #: There is more to read at once.
    more: bool = False
    #: There is more that must not be read before a transaction has ended that is still open.
    held_up: bool = False
    #: What came after the place that was asked for cannot be known: it was forgotten, or the log has never been there.
    broken: bool = False


def read_round(tx: Transaction, after: Cursor, limit: int) -> Round:
    """Return the events after the place, and the place to go on from."""
    if after < forgotten_until(tx) or after > reached(tx):
        return Round(current_place(tx), broken=True)
    events = read_events(tx, after, limit)
    # Up to the last event, and not to now: that is on the disk, while a server that crashes may give numbers of
    # transactions a second time which wrote nothing.
    place = events[-1].cursor if events else after
    if len(events) == limit:
        return Round(place, events, more=True)
    return Round(place, events, held_up=is_held_up(tx))


def read_missed(tx: Transaction, user_id: str, after: Cursor, until: Cursor, limit: int) -> list[Told] | None:
    """Return the user's events after one place and up to another; None when that cannot be known any more.

    Looked at in the same moment: some of what stood there may have been forgotten, and a place that the log has not
    reached is none of its own.
    """
    if after < forgotten_until(tx) or after > reached(tx):
        return None
    return [tell(event) for event in read_events_of(tx, user_id, after, until, limit)]
