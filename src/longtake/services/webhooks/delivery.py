"""The job kind `webhooks.deliver`: one delivery, tried until the receiver has it or is given up.

At least once: a try whose answer was lost is made again, under the same `webhook-id`. Only the engine tries again.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sqlalchemy import select

from longtake.adapters.net.retry_after import header_seconds
from longtake.db.dialects import seconds_until
from longtake.engine.kinds import JobKind, Steps
from longtake.engine.lanes import Lane
from longtake.engine.outcomes import Cancelled, Done, Fail, Outcome, Retry, Snooze
from longtake.errors import AddressRefused, NetError, VaultKeyWrong
from longtake.plain_text import clean_plain_text
from longtake.redaction import redact_text
from longtake.services.webhooks.attempts import Report, settle
from longtake.services.webhooks.delivery_limits import Line
from longtake.services.webhooks.dispatcher import DELIVER
from longtake.services.webhooks.signatures import sealed_name, signed_headers
from longtake.services.webhooks.tables import webhook_deliveries, webhook_endpoints

if TYPE_CHECKING:
    from sqlalchemy import Row

    from longtake.adapters.net import HttpClient, Response
    from longtake.clock import Clock
    from longtake.db import Database, Transaction
    from longtake.engine.jobs import Job
    from longtake.services.vault.vault import Vault

WEBHOOK_LANE = Lane("webhooks", max_running=64)
MINUTE, HOUR = 60.0, 3_600.0
#: After the first failure, the second, and so on: about three days in all.
WAITS = (5.0, 5 * MINUTE, 30 * MINUTE, *(hours * HOUR for hours in (2, 5, 10, 14, 20, 24)))
#: For one try: the name, the connection, the request and the beginning of the answer.
CALL_SECONDS = 15.0
ERROR_CHARACTERS = 300
REDIRECTS = range(300, 400)
SUCCESSES = range(200, 300)
GONE = 410
#: Statuses whose Retry-After is about us.
BUSY = (429, 503)


@dataclass(frozen=True, slots=True)
class _Tried:
    report: Report
    #: How long the receiver asks us to wait at least.
    wait: float = 0.0


class Delivering:
    """Sends deliveries."""

    def __init__(self, database: Database, client: HttpClient, vault: Vault, clock: Clock) -> None:
        self._database = database
        self._client = client
        self._vault = vault
        self._clock = clock
        self._line = Line(clock)

    def kind(self) -> JobKind:
        """Return the kind to declare."""
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
        """Try once, unless there is nothing to do any more or too many like it are under way."""
        found = await self._database.read(_read, job.args["delivery_id"])
        if found is None:
            return Cancelled("The delivery or its webhook was deleted.")
        if found.state != "pending":
            return Done()
        if not found.enabled:
            return Fail("WEBHOOK_DISABLED", "The webhook is disabled.")
        wait = self._line.enter(found.endpoint_id, found.user_id)
        if wait is not None:
            return Snooze(wait)
        begun, answered = self._clock.monotonic(), True
        try:
            tried = await self._try(found)
            answered = tried.report.status_code is not None
        finally:
            seconds = self._clock.monotonic() - begun
            self._line.leave(found.endpoint_id, found.user_id, seconds, answered=answered)
        return _outcome(job, tried)

    async def _try(self, found: Row[Any]) -> _Tried:
        body = found.payload.encode()
        headers = signed_headers(self._secrets(found), found.id, int(self._clock.now().timestamp()), body)
        headers["Content-Type"] = "application/json"
        begun = self._clock.monotonic()
        answer: Response | None = None
        try:
            answer = await self._client.post(found.url, body, headers, seconds=CALL_SECONDS)
            error = None if answer.status in SUCCESSES else _complaint(answer.status)
        except AddressRefused:
            # Its own sentence names the address: whoever made the webhook need not learn who lives in our network.
            error = "The address is not one of the public internet, or cannot be used."
        except NetError as failure:
            error = clean_plain_text(redact_text(failure.message), most=ERROR_CHARACTERS)
        status = None if answer is None else answer.status
        report = Report(
            delivery_id=found.id,
            endpoint_id=found.endpoint_id,
            seconds=round(self._clock.monotonic() - begun, 3),
            status_code=status,
            error=error,
            gone=status == GONE,
            is_test=found.event is None,
        )
        asked = header_seconds(answer.headers.get("Retry-After"), self._clock.now()) if answer is not None else None
        return _Tried(report, asked or 0.0 if status in BUSY else 0.0)

    def _secrets(self, found: Row[Any]) -> list[str]:
        """Return the secrets that count now, the newest first."""
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


def _outcome(job: Job, tried: _Tried) -> Outcome:
    """Say what the try means. Tries are counted in the memo: a snooze lets the engine's attempts begin anew."""
    report = tried.report
    if report.error is None:
        return Done(data=report)
    if report.gone:
        return Fail("WEBHOOK_GONE", report.error, data=report)
    failures = int((job.memo or {}).get("failures", 0)) + 1
    if failures > len(WAITS) or report.is_test:
        return Fail("WEBHOOK_FAILED", report.error, data=report)
    after = max(WAITS[failures - 1], tried.wait)
    return Retry("WEBHOOK_FAILED", report.error, after=after, memo={"failures": failures}, data=report)


def _complaint(status: int) -> str:
    if status in REDIRECTS:
        return f"The server answered {status}: redirects are not followed."
    return f"The server answered {status}; what counts as received is 200 to 299."
