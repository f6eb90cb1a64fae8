"""Turns the log of events into deliveries: each event once per endpoint that wants it, over all machines.

Owners see their deliveries, and can have them sent again.

The row `webhook_cursor` says how far the log has been read. One transaction locks it, writes deliveries and their jobs,
and moves it: a process that dies in between has done nothing.
"""

import asyncio
import contextlib
from collections import defaultdict
from collections.abc import Collection, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any

import orjson
import structlog
from sqlalchemy import BigInteger, Column, Row, Select, SmallInteger, Table, select, update
from sqlalchemy.dialects import postgresql, sqlite

from longtake.clock import iso_timestamp, new_id
from longtake.db import Database, Transaction
from longtake.db.dialects import NOW, SQLITE
from longtake.engine.control import cancel_of_subjects, hurry
from longtake.engine.engine import Engine
from longtake.engine.events import TOPIC, Event, is_held_up, read_events, selects
from longtake.engine.jobs import JobRequest
from longtake.engine.queries import plain
from longtake.engine.tables import metadata
from longtake.errors import LongtakeError, NotFound, StateConflict
from longtake.services.webhooks.endpoints import (
    IN_STATE,
    families_of,
    get_endpoint,
    webhook_deliveries,
    webhook_endpoints,
)

log = structlog.get_logger(__name__)

DELIVER = "webhooks.deliver"
TEST_TYPE = "webhook.test"
PAGE_LIMIT = 200
#: Events read in one transaction: each may become twenty deliveries.
PAGE = 200
#: The log is read this often even without a signal: signals get lost, and commits come out of order.
POLL_SECONDS = 5.0
#: The interval while an older open transaction keeps events from being read.
STALLED_SECONDS = 0.25
#: Signals in quick succession cause one read.
GATHER_SECONDS = 0.1

#: One row: how far the log of events has been read.
webhook_cursor = Table(
    "webhook_cursor",
    metadata,
    Column("id", SmallInteger, primary_key=True),
    Column("transaction_id", BigInteger, nullable=False),
    Column("sequence", BigInteger, nullable=False),
)
CURSOR = select(webhook_cursor.c.transaction_id, webhook_cursor.c.sequence)

Place = tuple[int, int]


class Dispatcher:
    """Reads the log beside a worker. Several may run: one at a time holds the cursor, the others do nothing."""

    def __init__(self, database: Database, engine: Engine, types: Sequence[str]) -> None:
        self._database = database
        self._engine = engine
        self._families = families_of(types)
        self._wake = asyncio.Event()

    def running(self) -> AbstractAsyncContextManager[None]:
        return self._database.signals.heeded(TOPIC, self._wake, self._loop())

    async def _loop(self) -> None:
        while True:
            self._wake.clear()
            pause = POLL_SECONDS
            try:
                await self.round()
                if await self._database.read(is_stalled):
                    pause = STALLED_SECONDS
            except LongtakeError as error:
                # The database is down. The log is still there when it is back.
                log.warning("webhook dispatch is waiting", action="dispatch", code=error.code)
            except Exception:
                log.exception("webhook dispatch failed", action="dispatch")
            await asyncio.sleep(GATHER_SECONDS)
            # Not `wait_for`: before Python 3.12 it loses a cancellation that arrives together with the signal.
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(pause):
                    await self._wake.wait()

    async def round(self) -> None:
        """Read the log to its end."""
        while await self._database.read(has_news):
            if not await self._database.run(dispatch, self._engine, self._families):
                return


def has_news(tx: Transaction) -> bool:
    """Return whether there are events for some endpoint. Called often; it writes nothing."""
    start = _start(tx, CURSOR)
    return start is not None and bool(read_events(tx, start, 1))


def is_stalled(tx: Transaction) -> bool:
    """Return whether there are events for some endpoint that cannot be read yet."""
    enabled = select(webhook_endpoints.c.id).where(webhook_endpoints.c.enabled).limit(1)
    return tx.execute(enabled).first() is not None and is_held_up(tx)


def dispatch(tx: Transaction, engine: Engine, families: Collection[str], page: int = PAGE) -> bool:
    """Turn the next page of events of these families into deliveries and jobs; return whether there may be more."""
    start = _start(tx, CURSOR.with_for_update(skip_locked=True))
    events = [] if start is None else read_events(tx, start, page)
    if not events:
        return False
    sent = [one for one in events if one.user_id is not None and one.type.partition(".")[0] in families]
    _write(tx, engine, sent)
    transaction_id, sequence = events[-1].cursor
    tx.execute(update(webhook_cursor).values(transaction_id=transaction_id, sequence=sequence))
    return len(events) == page


def enqueue_deliveries(tx: Transaction, engine: Engine, delivery_ids: Sequence[str]) -> None:
    """Enqueue a job for each delivery."""
    engine.enqueue_many(tx, [JobRequest(DELIVER, {"delivery_id": one}, key=one, subject=one) for one in delivery_ids])


def delivery_values(endpoint_id: str, user_id: str, kind: str, payload: Any, event: str | None) -> dict[str, Any]:
    """Return the columns of a new delivery. Its payload never changes afterwards."""
    return {
        "id": new_id(),
        "endpoint_id": endpoint_id,
        "user_id": user_id,
        "event": event,
        "type": kind,
        "payload": orjson.dumps(payload).decode(),
    }


def write_deliveries(tx: Transaction, engine: Engine, values: Sequence[dict[str, Any]]) -> None:
    """Write the deliveries that do not exist yet, and enqueue their jobs."""
    if not values:
        return
    first = (sqlite if tx.dialect == SQLITE else postgresql).insert(webhook_deliveries)
    constant = {"state": "pending", "attempts": 0, "next_at": NOW, "created_at": NOW}
    statement = first.values(constant).on_conflict_do_nothing().returning(webhook_deliveries.c.id)
    enqueue_deliveries(tx, engine, list(tx.execute(statement, values).scalars()))


def _start(tx: Transaction, cursor: Select[tuple[int, int]]) -> Place | None:
    """Return where to continue reading; None without any endpoint, or when another process holds the cursor.

    Events older than every endpoint are skipped.
    """
    transaction_id, sequence = webhook_endpoints.c.since_transaction, webhook_endpoints.c.since_sequence
    enabled = select(transaction_id, sequence).where(webhook_endpoints.c.enabled)
    since = tx.execute(enabled.order_by(transaction_id, sequence).limit(1)).first()
    place = None if since is None else tx.execute(cursor).first()
    if since is None or place is None:
        return None
    end = _first_unused(tx)
    places = (place.transaction_id, place.sequence), (since.since_transaction, since.since_sequence)
    return max(_of_this_server(one, end) for one in places)


def _first_unused(tx: Transaction) -> int:
    """Return a transaction number not used yet; every place read so far is below it."""
    if tx.dialect == SQLITE:
        return 1
    return int(tx.sql("SELECT pg_snapshot_xmax(pg_current_snapshot())::text::bigint")[0][0])


def _of_this_server(place: Place, first_unused: int) -> Place:
    """Return the place, or the start of the log where a restored dump brought the place from another server."""
    return place if place[0] < first_unused else (0, 0)


def _write(tx: Transaction, engine: Engine, events: Sequence[Event]) -> None:
    # Endpoints after events: an event that can be read was committed after the endpoints it must go to.
    endpoints = _endpoints_of(tx, {str(event.user_id) for event in events})
    end = _first_unused(tx)
    values = [
        delivery_values(endpoint.id, endpoint.user_id, event.type, _payload(event), event.place)
        for event in events
        for endpoint in endpoints[str(event.user_id)]
        if _is_news(event, endpoint, end) and selects(endpoint.events, event.type)
    ]
    write_deliveries(tx, engine, values)


def _is_news(event: Event, endpoint: Row[Any], first_unused: int) -> bool:
    """Return whether the event was committed after the endpoint was created or enabled again."""
    since = (endpoint.since_transaction, endpoint.since_sequence)
    if _of_this_server(since, first_unused) != since:
        return True
    return event.cursor > since and not _was_over(event.cursor[0], endpoint.since_snapshot)


def _was_over(transaction_id: int, snapshot: str | None) -> bool:
    """Return whether a transaction had ended in a PostgreSQL snapshot `oldest_open:first_unused:open,open…`."""
    if snapshot is None:
        return False
    _oldest, first_unused, still_open = snapshot.split(":")
    return transaction_id < int(first_unused) and str(transaction_id) not in still_open.split(",")


def _endpoints_of(tx: Transaction, users: set[str]) -> dict[str, list[Row[Any]]]:
    """Return the users' enabled endpoints, locked against deletion until this transaction ends."""
    table = webhook_endpoints
    since = (table.c.since_transaction, table.c.since_sequence, table.c.since_snapshot)
    query = (
        select(table.c.id, table.c.user_id, table.c.events, *since)
        .where(table.c.user_id.in_(users), table.c.enabled)
        .order_by(table.c.id)
    )
    found: dict[str, list[Row[Any]]] = defaultdict(list)
    for row in tx.execute(query.with_for_update(read=True, key_share=True)):
        found[row.user_id].append(row)
    return found


def _payload(event: Event) -> dict[str, Any]:
    moment = iso_timestamp(event.at, "microseconds")
    data = {**(event.data or {}), "id": event.subject, "cursor": event.place}
    return {"type": event.type, "timestamp": moment, "data": data}


SHOWN = tuple(webhook_deliveries.c[name] for name in (
    "id", "event", "type", "state", "attempts", "status_code", "seconds", "error", "next_at", "created_at", "ended_at",
))  # fmt: skip


def list_deliveries(
    tx: Transaction, user_id: str, endpoint_id: str, state: str | None, before: str | None, limit: int
) -> tuple[list[dict[str, Any]], str | None]:
    """Return a page of deliveries, newest first, and the cursor of the next page, if any."""
    get_endpoint(tx, user_id, endpoint_id)
    own = (webhook_deliveries.c.endpoint_id == endpoint_id, webhook_deliveries.c.user_id == user_id)
    query = select(*SHOWN).where(*own)
    if state is not None:
        query = query.where(IN_STATE[state])
    if before is not None:
        query = query.where(webhook_deliveries.c.id < before)
    rows = tx.execute(query.order_by(webhook_deliveries.c.id.desc()).limit(limit + 1)).all()
    cursor = str(rows[limit - 1].id) if len(rows) > limit else None
    return [plain(row) for row in rows[:limit]], cursor


def get_delivery(tx: Transaction, user_id: str, endpoint_id: str, delivery_id: str) -> dict[str, Any]:
    """Return one delivery with its payload."""
    get_endpoint(tx, user_id, endpoint_id)
    query = select(*SHOWN, webhook_deliveries.c.payload).where(*_own(user_id, endpoint_id, delivery_id))
    row = tx.execute(query).first()
    if row is None:
        raise NotFound(f"There is no delivery {delivery_id}.", hint="GET /v1/webhooks/{id}/deliveries lists them.")
    return plain(row) | {"payload": orjson.loads(row.payload)}


def send_test(tx: Transaction, engine: Engine, user_id: str, endpoint_id: str, moment: str) -> dict[str, Any]:
    """Send a `webhook.test`. It is attempted once, and its result does not affect the endpoint."""
    _require_enabled(tx, user_id, endpoint_id)
    payload = {"type": TEST_TYPE, "timestamp": moment, "data": {"id": endpoint_id, "cursor": None}}
    values = delivery_values(endpoint_id, user_id, TEST_TYPE, payload, None)
    write_deliveries(tx, engine, [values])
    return get_delivery(tx, user_id, endpoint_id, values["id"])


def redeliver(tx: Transaction, engine: Engine, user_id: str, endpoint_id: str, delivery_id: str) -> dict[str, Any]:
    """Try again now, under the same id. A delivery that has ended gets all its attempts again."""
    get_delivery(tx, user_id, endpoint_id, delivery_id)
    _require_enabled(tx, user_id, endpoint_id)
    own = _own(user_id, endpoint_id, delivery_id)
    again = {"state": "pending", "next_at": NOW, "ended_at": None}
    ended = update(webhook_deliveries).where(*own, webhook_deliveries.c.state != "pending").values(**again)
    if tx.execute(ended).rowcount:
        # A delivery that failed with its endpoint may still have its old job, hours away and with few attempts left.
        # What ends that job at this moment changes no delivery that has ended.
        cancel_of_subjects(tx, [delivery_id], [DELIVER], "delivered again by hand")
        enqueue_deliveries(tx, engine, [delivery_id])
    elif hurry(tx, DELIVER, [delivery_id]):
        tx.execute(update(webhook_deliveries).where(*own).values(next_at=NOW))
    else:
        raise StateConflict(f"The delivery {delivery_id} is already being attempted.", hint="Try again in a moment.")
    return get_delivery(tx, user_id, endpoint_id, delivery_id)


def _require_enabled(tx: Transaction, user_id: str, endpoint_id: str) -> None:
    if not get_endpoint(tx, user_id, endpoint_id)["enabled"]:
        raise StateConflict(
            f"The webhook {endpoint_id} is disabled.", hint='PATCH it with {"enabled": true}, then try again.'
        )


def _own(user_id: str, endpoint_id: str, delivery_id: str) -> tuple[Any, Any, Any]:
    one = webhook_deliveries.c
    return one.id == delivery_id, one.endpoint_id == endpoint_id, one.user_id == user_id
