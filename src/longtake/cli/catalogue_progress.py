"""The state of the catalogue: printed, and watched with bars on a terminal or plain lines elsewhere."""

import sys
import time
from collections.abc import Callable, Mapping
from typing import Any

from rich.progress_bar import ProgressBar
from rich.table import Table

from longtake.cli.server import ServerConnection
from longtake.client import Client
from longtake.client.shapes import CatalogueStatus
from longtake.errors import StateConflict
from longtake.terminal.output import age, counted, print_facts, print_note
from longtake.terminal.progress import BAR_WIDTH, live_view

KEY_HINT = "`longtake secrets set tmdb_api_key` or LONGTAKE_TMDB_API_KEY"
IDLE_HINT = "`longtake catalogue start` resumes it after a stop; `longtake serve` or `longtake worker` does the work."
LOOK_SECONDS = 0.5
FRAMES_PER_SECOND = 4
#: Least time between two plain lines.
LINE_SECONDS = 5.0
#: How long the work may look idle; a worker that has just started is not visible at once.
IDLE_SECONDS = 10.0
#: If nothing changes for so long, the rest waits for its next try, which may be minutes away.
STILL_SECONDS = 10.0
#: Jobs that lead to a sync.
BEFORE_SYNC = {"catalogue.calendar", "catalogue.subject"}


def watch(server: ServerConnection, *, patient: bool = True) -> CatalogueStatus:
    """Show the progress until no work is left, then return the catalogue's state.

    Without ``patient``, work that waits for another try is not waited for.
    """
    poll = _Poll(server.client, patient=patient)
    try:
        return _with_bars(poll) if sys.stderr.isatty() else _with_lines(poll)
    except KeyboardInterrupt:
        later = "The rest continues as soon as a server runs: `longtake serve`."
        now = "The work itself goes on: `longtake catalogue status` shows its progress."
        print_note(f"Only the waiting has ended. {later if server.embedded else now}")
        raise


def finish_locally(server: ServerConnection) -> CatalogueStatus | None:
    """Wait for the work if the server ends with this command, because no other server would do it."""
    if not server.embedded:
        return None
    try:
        status = watch(server, patient=False)
    except StateConflict as error:
        # The request itself is done; only the rest waits.
        print_note(f"{error.message} {error.hint}")
        return None
    if is_busy(status):
        print_note("The rest waits for another try, and continues as soon as a server runs: `longtake serve`.")
    return status


def is_busy(status: CatalogueStatus) -> bool:
    """Return whether a sync is running, or a job that leads to one."""
    return status["syncing"] or bool(status["jobs"].keys() & BEFORE_SYNC)


class _Poll:
    """Polls the catalogue's state until there is nothing left to wait for."""

    def __init__(self, client: Client, *, patient: bool) -> None:
        self._client = client
        self._patient = patient
        self._worked_at = self._moved_at = time.monotonic()
        self.status = client.catalogue.status()

    def until_done(self, tell: Callable[[CatalogueStatus], None]) -> CatalogueStatus:
        """Pass each state to `tell`; return the last."""
        tell(self.status)
        while is_busy(self.status) and not self._is_still():
            time.sleep(LOOK_SECONDS)
            before, self.status = self.status, self._client.catalogue.status()
            now = time.monotonic()
            if self.status["running"]:
                self._worked_at = now
            elif now - self._worked_at > IDLE_SECONDS:
                raise StateConflict(
                    "No worker is alive for the catalogue: there is nothing to wait for.", hint=IDLE_HINT
                )
            if before != self.status or _is_running(self.status):
                self._moved_at = now
            tell(self.status)
        return self.status

    def _is_still(self) -> bool:
        return not self._patient and time.monotonic() - self._moved_at > STILL_SECONDS


def _is_running(status: CatalogueStatus) -> bool:
    return any(states.get("running") for states in status["jobs"].values())


def _with_lines(poll: _Poll) -> CatalogueStatus:
    printed, printed_at = "", 0.0

    def tell(status: CatalogueStatus) -> None:
        nonlocal printed, printed_at
        line, now = describe(status), time.monotonic()
        if line != printed and (now - printed_at >= LINE_SECONDS or not is_busy(status)):
            printed, printed_at = line, now
            print_note(line)

    return poll.until_done(tell)


def _with_bars(poll: _Poll) -> CatalogueStatus:
    with live_view(_bars, poll.status, frames_per_second=FRAMES_PER_SECOND) as show:
        return poll.until_done(show)


def _bars(status: CatalogueStatus) -> Table:
    table = Table.grid(padding=(0, 1))
    total, stored, found = status["titles"], status["posters"]["stored"], status["tmdb"]["found"]
    trouble = f", {status['in_trouble']:,} in trouble" if status["in_trouble"] else ""
    doubt = f", {status['tmdb']['in_doubt']:,} in doubt" if status["tmdb"]["in_doubt"] else ""
    key = "" if status["tmdb_configured"] else ", no TMDB key"
    table.add_row("posters", ProgressBar(total or 1, stored, width=BAR_WIDTH), f"{stored:,} of {total:,}{trouble}")
    table.add_row("ids", ProgressBar(total or 1, found, width=BAR_WIDTH), f"{found:,} of {total:,}{doubt}{key}")
    table.add_row("jobs left", "", f"{jobs_left(status):,}")
    return table


def print_status(status: CatalogueStatus) -> None:
    """Print the state of the catalogue."""
    schedules: Mapping[str, Any] = status["schedules"]
    print_facts(
        {
            "titles": f"{status['titles']:,}",
            "posters": f"{_part(status['posters']['stored'], status)} stored, {status['posters']['remote']:,} remote,"
            f" {status['posters']['none']:,} without",
            "tmdb ids": f"{_part(status['tmdb']['found'], status)} found, {status['tmdb']['in_doubt']:,} in doubt,"
            f" {status['tmdb']['not_found']:,} not found, {status['tmdb']['waiting']:,} waiting",
            "in trouble": f"{status['in_trouble']:,}"
            + (": `longtake catalogue list --in-trouble`" if status["in_trouble"] else ""),
            "worker": "running" if status["running"] else f"none: {IDLE_HINT}",
            "syncing": f"yes, {counted(jobs_left(status), 'job')} left" if status["syncing"] else "no",
            "next sync": _next_run(schedules.get("sync")),
            "next calendar": _next_run(schedules.get("calendar")),
            "tmdb key": "configured" if status["tmdb_configured"] else f"none, so no ids are looked up: {KEY_HINT}",
        }
    )


def jobs_left(status: CatalogueStatus) -> int:
    """Return the number of jobs that wait or run."""
    return sum(sum(states.values()) for states in status["jobs"].values())


def describe(status: CatalogueStatus) -> str:
    """Return the progress of a sync in words."""
    tmdb, posters = status["tmdb"], _part(status["posters"]["stored"], status)
    return (
        f"{posters} posters, {counted(tmdb['found'], 'id')}, {tmdb['in_doubt']:,} in doubt,"
        f" {status['in_trouble']:,} in trouble, {counted(jobs_left(status), 'job')} left"
    )


def _part(number: int, status: CatalogueStatus) -> str:
    return f"{number:,} of {status['titles']:,}"


def _next_run(rhythm: Mapping[str, Any] | None) -> str:
    if rhythm is None or rhythm["next_at"] is None:
        return "not by itself"
    last = f" (last {age(rhythm['last_at'])})" if rhythm["last_at"] else ""
    return f"{age(rhythm['next_at'])}{last}"
