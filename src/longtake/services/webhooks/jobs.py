"""The jobs of webhooks: `webhooks.deliver` sends one delivery, `webhooks.prune` deletes old ones.

Delivery is at least once: when the response to an attempt is lost, the attempt is repeated under the same `webhook-id`.
Only the engine retries.
"""

import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from sqlalchemy import Row, delete, or_, select, update

from longtake.adapters.net import HttpClient, Response
from longtake.adapters.net.errors import AddressRefused, NetError
from longtake.adapters.net.responses import retry_after_seconds
from longtake.clock import Clock
from longtake.db import Database, Transaction
from longtake.db.dialects import NOW, later, seconds_until
from longtake.engine.engine import Engine
from longtake.engine.jobs import Job, Priority
from longtake.engine.kinds import JobKind, Settlement, Steps
from longtake.engine.lanes import Lane
from longtake.engine.outcomes import Cancelled, Done, Fail, Outcome, Retry, Snooze
from longtake.engine.schedules import Schedule, database_now
from longtake.redaction import redact_text
from longtake.services.vault.errors import VaultKeyWrong
from longtake.services.vault.vault import Vault
from longtake.services.webhooks.dispatcher import DELIVER
from longtake.services.webhooks.endpoints import disable_endpoint, webhook_deliveries, webhook_endpoints
from longtake.services.webhooks.signatures import sealed_name, signed_headers
from longtake.validation import clean_plain_text

WEBHOOK_LANE = Lane("webhooks", max_running=64)
MINUTE, HOUR = 60.0, 3_600.0
#: Seconds to wait after the first failure, the second, and so on: about three days in all.
WAITS = (5.0, 5 * MINUTE, 30 * MINUTE, *(hours * HOUR for hours in (2, 5, 10, 14, 20, 24)))
#: Seconds for one attempt: name lookup, connection, request and the start of the response.
CALL_SECONDS = 15.0
ERROR_CHARACTERS = 300
REDIRECTS = range(300, 400)
SUCCESSES = range(200, 300)
#: The receiver wants no more deliveries, ever.
GONE = 410
#: Statuses whose Retry-After header is honoured.
BUSY = (429, 503)
#: What users read when an attempt failed on our side; the job's own error has the details for operators.
OUR_FAULT = "Something went wrong here, not at your server."

PRUNE = "webhooks.prune"
PRUNE_PAGE = 1_000
PRUNE_SCHEDULE = Schedule(PRUNE, PRUNE, every=3_600.0)

#: Deliveries to one endpoint at once.
MOST_AT_ONCE = 8
#: For an endpoint that did not answer the last attempt: its owner's other endpoints need room beside it.
MOST_TO_SILENT = 2
MOST_OF_A_USER = 8
#: Beyond this many, the endpoints silent for longest are forgotten, which gives each its full share once.
SILENT_REMEMBERED = 10_000
#: How long a delivery that is turned away waits, at least and at most.
SHORTEST_SECONDS = 0.5
LONGEST_SECONDS = 60.0
#: Weight of the newest delivery in the moving average of a receiver's speed.
NEWEST_PART = 0.2
#: Receivers faster than this count as this fast.
LEAST_PACE = 0.01


@dataclass(frozen=True, slots=True)
class Attempt:
    """One request that was sent, or that could not be sent."""

    delivery_id: str
    endpoint_id: str
    seconds: float
    status_code: int | None = None
    error: str | None = None
    #: A test, sent by hand: its result says nothing about the endpoint.
    is_test: bool = False
    #: Seconds the receiver asks us to wait at least.
    retry_after: float = 0.0


class WebhookSender:
    """Sends deliveries, as the job kind `webhooks.deliver`."""

    def __init__(self, database: Database, client: HttpClient, vault: Vault, clock: Clock) -> None:
        self._database = database
        self._client = client
        self._vault = vault
        self._clock = clock
        self._limits = DeliveryLimits(clock)

    def kind(self) -> JobKind:
        return JobKind(
            DELIVER,
            self.run,
            settle,
            lane=WEBHOOK_LANE.name,
            time_limit=2 * CALL_SECONDS,
            max_attempts=len(WAITS) + 1,
            back_off=Steps(WAITS),
        )

    async def run(self, job: Job) -> Outcome:
        """Make one attempt, unless the delivery has ended or too many like it are running."""
        found = await self._database.read(_read, job.args["delivery_id"])
        if found is None:
            return Cancelled("The delivery or its webhook was deleted.")
        if found.state != "pending":
            return Done()
        if not found.enabled:
            return Fail("WEBHOOK_DISABLED", "The webhook is disabled.")
        wait = self._limits.enter(found.endpoint_id, found.user_id)
        if wait is not None:
            return Snooze(wait)
        started, answered = self._clock.monotonic(), True
        try:
            attempt = await self._attempt(found)
            answered = attempt.status_code is not None
        finally:
            seconds = self._clock.monotonic() - started
            self._limits.leave(found.endpoint_id, found.user_id, seconds, answered=answered)
        return _outcome(job, attempt)

    async def _attempt(self, found: Row[Any]) -> Attempt:
        body = found.payload.encode()
        headers = signed_headers(self._secrets(found), found.id, int(self._clock.now().timestamp()), body)
        headers["Content-Type"] = "application/json"
        started = self._clock.monotonic()
        answer: Response | None = None
        try:
            answer = await self._client.post(found.url, body, headers, seconds=CALL_SECONDS)
            error = None if answer.status in SUCCESSES else _status_error(answer.status)
        except AddressRefused:
            # The error's own sentence names the address: users must not learn which hosts exist in our network.
            error = "The address is not on the public internet, or cannot be used."
        except NetError as failure:
            error = clean_plain_text(redact_text(failure.message), most=ERROR_CHARACTERS)
        status = None if answer is None else answer.status
        wait = retry_after_seconds(answer.headers.get("Retry-After"), self._clock.now()) if answer is not None else None
        return Attempt(
            delivery_id=found.id,
            endpoint_id=found.endpoint_id,
            seconds=round(self._clock.monotonic() - started, 3),
            status_code=status,
            error=error,
            is_test=found.event is None,
            retry_after=wait or 0.0 if status in BUSY else 0.0,
        )

    def _secrets(self, found: Row[Any]) -> list[str]:
        """Return the secrets that are valid now, the newest first."""
        sealed = [found.secret] + ([found.previous_secret] if (found.overlap or 0.0) > 0 else [])
        opened = [self._vault.open(sealed_name(found.endpoint_id), one) for one in sealed]
        if opened[0] is None:
            raise VaultKeyWrong(f"The secret of the webhook {found.endpoint_id} cannot be opened with this key.")
        return [one for one in opened if one is not None]


def _read(tx: Transaction, delivery_id: str) -> Row[Any] | None:
    one, endpoint = webhook_deliveries.c, webhook_endpoints.c
    columns = (one.id, one.endpoint_id, one.user_id, one.event, one.payload, one.state, endpoint.url, endpoint.enabled)
    secrets = (endpoint.secret, endpoint.previous_secret, seconds_until(endpoint.previous_ends_at).label("overlap"))
    joined = webhook_deliveries.join(webhook_endpoints, one.endpoint_id == endpoint.id)
    return tx.execute(select(*columns, *secrets).select_from(joined).where(one.id == delivery_id)).first()


def _outcome(job: Job, attempt: Attempt) -> Outcome:
    """Return the outcome of an attempt."""
    if attempt.error is None:
        return Done(data=attempt)
    if attempt.status_code == GONE:
        return Fail("WEBHOOK_GONE", attempt.error, data=attempt)
    if attempt.is_test or job.attempt > len(WAITS):
        return Fail("WEBHOOK_FAILED", attempt.error, data=attempt)
    after = max(WAITS[job.attempt - 1], attempt.retry_after)
    return Retry("WEBHOOK_FAILED", attempt.error, after=after, data=attempt)


def _status_error(status: int) -> str:
    if status in REDIRECTS:
        return f"The server answered {status}: redirects are not followed."
    return f"The server answered {status}; only 200 to 299 counts as received."


def settle(tx: Transaction, _engine: Engine, settlements: Sequence[Settlement]) -> None:
    """Record the attempts, in the transaction that ends their jobs. Deliveries that have ended already stay as is."""
    _lock_endpoints(tx, settlements)
    delivered: set[str] = set()
    for one in sorted(settlements, key=lambda settlement: str(settlement.job.args["delivery_id"])):
        attempt = one.outcome.data if isinstance(one.outcome.data, Attempt) else None
        _record(tx, one.job.args["delivery_id"], one.outcome, attempt)
        if attempt is not None and isinstance(one.outcome, Done) and not attempt.is_test:
            delivered.add(attempt.endpoint_id)
    if delivered:
        reached = webhook_endpoints.c.id.in_(delivered)
        tx.execute(update(webhook_endpoints).where(reached).values(last_success_at=NOW))
    for one in settlements:
        if isinstance(one.outcome, Fail) and isinstance(one.outcome.data, Attempt):
            _disable_if_dead(tx, one.outcome.data)


def _lock_endpoints(tx: Transaction, settlements: Sequence[Settlement]) -> None:
    """Lock endpoints before deliveries and in one order: an endpoint that is disabled fails all its deliveries."""
    ids = [one.job.args["delivery_id"] for one in settlements]
    of_these = select(webhook_deliveries.c.endpoint_id).where(webhook_deliveries.c.id.in_(ids))
    which = select(webhook_endpoints.c.id).where(webhook_endpoints.c.id.in_(of_these))
    tx.execute(which.order_by(webhook_endpoints.c.id).with_for_update(key_share=True)).all()


def _record(tx: Transaction, delivery_id: str, outcome: Outcome, attempt: Attempt | None) -> None:
    values: dict[str, Any] = {}
    if attempt is not None:
        values = {
            "attempts": webhook_deliveries.c.attempts + 1,
            "status_code": attempt.status_code,
            "seconds": attempt.seconds,
            "error": attempt.error,
        }
    over = {"next_at": None, "ended_at": NOW}
    match outcome:
        case Done():
            values |= {"state": "delivered", **over} if attempt is not None else {}
        case Retry(after=after):
            values |= {"next_at": None if after is None else later(after)}
            values.setdefault("error", OUR_FAULT)
        case Fail():
            values |= {"state": "failed", **over}
            values.setdefault("error", OUR_FAULT)
        case Cancelled():
            values |= {"state": "failed", "error": "It was cancelled.", **over}
    if values:
        pending = (webhook_deliveries.c.id == delivery_id, webhook_deliveries.c.state == "pending")
        tx.execute(update(webhook_deliveries).where(*pending).values(**values))


def _disable_if_dead(tx: Transaction, attempt: Attempt) -> None:
    """Disable an endpoint that is gone, or that accepted nothing while this delivery used up its attempts."""
    if attempt.is_test:
        return
    if attempt.status_code == GONE:
        disable_endpoint(tx, attempt.endpoint_id, "gone")
        return
    created_at = select(webhook_deliveries.c.created_at).where(webhook_deliveries.c.id == attempt.delivery_id)
    last = webhook_endpoints.c.last_success_at
    silent = or_(last.is_(None), last < created_at.scalar_subquery())
    which = select(webhook_endpoints.c.id).where(webhook_endpoints.c.id == attempt.endpoint_id, silent)
    if tx.execute(which).first() is not None:
        disable_endpoint(tx, attempt.endpoint_id, "failing")


def prune_kind(database: Database, days: float) -> JobKind:
    """Return the job kind that deletes deliveries older than `days`."""

    async def prune(_job: Job) -> Outcome:
        while await database.run(prune_page, days) == PRUNE_PAGE:
            pass
        return Done()

    return JobKind(PRUNE, prune, priority=Priority.LOW, time_limit=600.0)


def prune_page(tx: Transaction, days: float) -> int:
    """Delete one page of old deliveries and return how many there were. Pending deliveries stay.

    Ids begin with the time, so that old deliveries come first in the primary key.
    """
    milliseconds = int((database_now(tx) - timedelta(days=days)).timestamp() * 1000)
    first_kept = str(uuid.UUID(int=milliseconds << 80))
    old = (webhook_deliveries.c.id < first_kept, webhook_deliveries.c.state != "pending")
    page = select(webhook_deliveries.c.id).where(*old).order_by(webhook_deliveries.c.id).limit(PRUNE_PAGE)
    return tx.execute(delete(webhook_deliveries).where(webhook_deliveries.c.id.in_(page))).rowcount


@dataclass(slots=True)
class _Load:
    """The deliveries to one endpoint, or all deliveries of one user."""

    running: int = 0
    #: About how many are waiting, and when that was estimated. Which ones is not kept: many run in other processes.
    waiting: float = 0.0
    estimated_at: float = 0.0
    #: Seconds one delivery takes, as a moving average.
    pace: float = 1.0


class DeliveryLimits:
    """Limits how many deliveries to one endpoint, and of one user, run at once in this process.

    A slow or silent receiver must not hold up the others, and neither must a user who has many of them. Those that are
    turned away learn when the ones before them will be done.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        #: Only endpoints and users with a running delivery.
        self._endpoints: dict[str, _Load] = {}
        self._users: dict[str, _Load] = {}
        #: Endpoints that did not answer the last attempt, in the order in which they fell silent.
        self._silent: dict[str, None] = {}

    def enter(self, endpoint_id: str, user_id: str) -> float | None:
        """Return None when a delivery may start, which `leave` must end; else how many seconds to wait."""
        endpoint = self._endpoints.get(endpoint_id) or _Load()
        user = self._users.get(user_id) or _Load()
        most = MOST_TO_SILENT if endpoint_id in self._silent else MOST_AT_ONCE
        limits = ((endpoint, most), (user, MOST_OF_A_USER))
        waits = [self._wait(load, limit) for load, limit in limits if load.running >= limit]
        if waits:
            return max(waits)
        endpoint.running += 1
        user.running += 1
        self._endpoints[endpoint_id], self._users[user_id] = endpoint, user
        return None

    def leave(self, endpoint_id: str, user_id: str, seconds: float, *, answered: bool = True) -> None:
        for loads, name in ((self._endpoints, endpoint_id), (self._users, user_id)):
            load = loads[name]
            load.running -= 1
            load.pace += (max(seconds, LEAST_PACE) - load.pace) * NEWEST_PART
            if not load.running:
                del loads[name]
        if answered:
            self._silent.pop(endpoint_id, None)
        else:
            self._silent[endpoint_id] = None
            if len(self._silent) > SILENT_REMEMBERED:
                del self._silent[next(iter(self._silent))]

    def _wait(self, load: _Load, most: int) -> float:
        now, each = self._clock.monotonic(), load.pace / most
        # Deliveries whose wait is over have started, here or elsewhere, or are back and count again.
        left = max(load.waiting - (now - load.estimated_at) / each, 0.0)
        load.waiting, load.estimated_at = min(left + 1, LONGEST_SECONDS / each), now
        return max(load.waiting * each, SHORTEST_SECONDS)
