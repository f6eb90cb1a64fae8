"""Events that wait behind somebody's open transaction: operators hear of it when it takes long."""

from __future__ import annotations

from typing import TYPE_CHECKING

import structlog

from longtake.errors import LongtakeError
from longtake.services.alerts import Severity, raise_alert, resolve_alert

if TYPE_CHECKING:
    from longtake.clock import Clock
    from longtake.db import Database, Transaction
    from longtake.engine.events import Event
    from longtake.services.live.event_log import Round

log = structlog.get_logger(__name__)

CODE = "EVENTS_HELD_UP"
PATIENCE_SECONDS = 5.0

# Real time, and everybody's: numbers of transactions are given by the whole server, not by one database.
OLDEST_WRITER = """
SELECT coalesce(nullif(application_name, ''), 'unnamed'), pid,
    extract(epoch FROM clock_timestamp() - xact_start)::float8
FROM pg_stat_activity WHERE backend_xid IS NOT NULL AND pid <> pg_backend_pid()
ORDER BY age(backend_xid) DESC LIMIT 1
"""


class HeldUp:
    """Raises the alert once while events are held up for too long; resolves it when they pass, whoever raised it."""

    def __init__(self, database: Database, clock: Clock) -> None:
        self._database = database
        self._clock = clock
        self._since: float | None = None
        #: None where another process may have left the alert standing.
        self._raised: bool | None = None

    @property
    def raised(self) -> bool:
        """Whether this process has raised the alert, and must go on looking until it can be resolved."""
        return self._raised is True

    def rest(self) -> None:
        """Take note that nobody looks any more: what happens until the next look is not known."""
        self._since = self._raised = None

    async def note(self, found: Round) -> None:
        """Take note of what a look at the log has found."""
        now = self._clock.monotonic()
        if found.held_up and self._since is None:
            self._since = now
        waited = 0.0 if self._since is None else now - self._since
        # The alert is an event like others, and held up like them: it is read when its reason is over.
        if not self._raised and any(_is_ours(event) for event in found.events):
            self._raised = None
        try:
            if not found.held_up:
                self._since = None
                if self._raised is not False:
                    await self._database.run(resolve_alert, CODE)
                    self._raised = False
            elif waited > PATIENCE_SECONDS and not self._raised:
                await self._database.run(_raise, waited)
                self._raised = True
        except LongtakeError as error:
            log.warning("an alert could not be written", action="alert", code=error.code)


def _is_ours(event: Event) -> bool:
    return event.type == "alert.raised" and (event.data or {}).get("code") == CODE


def _raise(tx: Transaction, waited: float) -> None:
    found = tx.sql(OLDEST_WRITER)
    whose = "by a transaction that this role may not see, or a prepared one"
    if found:
        name, pid, seconds = found[0]
        age = "" if seconds is None else f", open for {seconds:.0f} s"
        whose = f"by a transaction of {name} (process {pid}{age})"
    raise_alert(tx, Severity.WARNING, CODE, f"Users' events have been held up for {waited:.0f} s {whose}.")
