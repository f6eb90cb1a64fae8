"""The alert for events that wait too long behind an open transaction."""

from __future__ import annotations

from typing import TYPE_CHECKING

import structlog

from longtake.errors import LongtakeError
from longtake.services.alerts import Severity, raise_alert, resolve_alert

if TYPE_CHECKING:
    from longtake.clock import Clock
    from longtake.db import Database, Transaction
    from longtake.engine.events import Event
    from longtake.services.live.event_log import LogPage

log = structlog.get_logger(__name__)

CODE = "EVENTS_HELD_UP"
PATIENCE_SECONDS = 5.0

# Real time, and all databases: transaction numbers belong to the server, not to one database.
OLDEST_WRITER = """
SELECT coalesce(nullif(application_name, ''), 'unnamed'), pid,
    extract(epoch FROM clock_timestamp() - xact_start)::float8
FROM pg_stat_activity WHERE backend_xid IS NOT NULL AND pid <> pg_backend_pid()
ORDER BY age(backend_xid) DESC LIMIT 1
"""


class StalledAlert:
    """Raises the alert once while events are stalled for too long; resolves it later, whichever process raised it."""

    def __init__(self, database: Database, clock: Clock) -> None:
        self._database = database
        self._clock = clock
        self._since: float | None = None
        #: None when another process may have left the alert open.
        self._raised: bool | None = None

    @property
    def raised(self) -> bool:
        """Whether this process has raised the alert, and must keep reading until it can resolve it."""
        return self._raised is True

    def reset(self) -> None:
        """Forget the state, because reading pauses: what happens until the next read is unknown."""
        self._since = self._raised = None

    async def update(self, page: LogPage) -> None:
        """Raise or resolve the alert by what a read of the log found."""
        now = self._clock.monotonic()
        if page.stalled and self._since is None:
            self._since = now
        waited = 0.0 if self._since is None else now - self._since
        # The alert is itself an event, and stalled like the others: it is read when its cause is over.
        if not self._raised and any(_is_ours(event) for event in page.events):
            self._raised = None
        try:
            if not page.stalled:
                self._since = None
                if self._raised is not False:
                    await self._database.run(resolve_alert, CODE)
                    self._raised = False
            elif waited > PATIENCE_SECONDS and not self._raised:
                await self._database.run(_raise, waited)
                self._raised = True
        except LongtakeError as error:
            log.warning("alert not written", action="alert", code=error.code)


def _is_ours(event: Event) -> bool:
    return event.type == "alert.raised" and (event.data or {}).get("code") == CODE


def _raise(tx: Transaction, waited: float) -> None:
    found = tx.sql(OLDEST_WRITER)
    by = "by a transaction that this role may not see, or by a prepared one"
    if found:
        name, pid, seconds = found[0]
        age = "" if seconds is None else f", open for {seconds:.0f} s"
        by = f"by a transaction of {name} (process {pid}{age})"
    raise_alert(tx, Severity.WARNING, CODE, f"Users' events have been held up for {waited:.0f} s {by}.")
