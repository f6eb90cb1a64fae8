"""Waiting for the catalogue: bars that move on a terminal, plain lines elsewhere; always where errors are said."""

import sys
import threading
import time
from collections.abc import Callable

from rich.console import Console, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table

from longtake.cli.catalogue_views import IDLE_HINT, describe, jobs_left
from longtake.cli.output import print_note
from longtake.cli.user_server import Reached
from longtake.client import Client
from longtake.client.shapes import CatalogueStatus
from longtake.errors import StateConflict

LOOK_SECONDS = 0.5
FRAMES_PER_SECOND = 4
BAR_WIDTH = 30
#: A plain line is worth printing again after so long, if anything has changed.
LINE_SECONDS = 5.0
#: A worker that has just been started is not yet known to everybody.
IDLE_SECONDS = 10.0
#: Where nothing moves for so long, what is left waits for its next try, which may be minutes away.
STILL_SECONDS = 10.0
#: What is no sync, but becomes one.
BEFORE_SYNC = {"catalogue.calendar", "catalogue.subject"}


def watch(reached: Reached, *, patient: bool = True) -> CatalogueStatus:
    """Show how the work gets on until none is under way, and return how the catalogue stands then.

    Where not ``patient``, what waits for another try is not waited for.
    """
    waiting = _Waiting(reached.client, patient=patient)
    try:
        return _with_bars(waiting) if sys.stderr.isatty() else _with_lines(waiting)
    except KeyboardInterrupt:
        later = "What is left goes on as soon as a server runs: `longtake serve`."
        now = "The work itself goes on: `longtake catalogue status` shows how far it is."
        print_note(f"Only the waiting has ended. {later if reached.embedded else now}")
        raise


def see_through(reached: Reached) -> CatalogueStatus | None:
    """Wait where the server ends with this command: nobody else would work on what it has begun."""
    if not reached.embedded:
        return None
    try:
        status = watch(reached, patient=False)
    except StateConflict as error:
        # What was asked for is done; only the rest waits.
        print_note(f"{error.message} {error.hint}")
        return None
    if is_busy(status):
        print_note("What is left waits for another try, and goes on as soon as a server runs: `longtake serve`.")
    return status


def is_busy(status: CatalogueStatus) -> bool:
    """Say whether anything is under way that a sync is, or ends in."""
    return status["syncing"] or bool(status["jobs"].keys() & BEFORE_SYNC)


class _Waiting:
    """Looks again and again; knows when there is nothing more to wait for."""

    def __init__(self, client: Client, *, patient: bool) -> None:
        self._client = client
        self._patient = patient
        self._worked_at = self._moved_at = time.monotonic()
        self.status = client.catalogue.status()

    def until_done(self, tell: Callable[[CatalogueStatus], None]) -> CatalogueStatus:
        """Tell each look; return the last."""
        tell(self.status)
        while is_busy(self.status) and not self._is_still():
            time.sleep(LOOK_SECONDS)
            before, self.status = self.status, self._client.catalogue.status()
            now = time.monotonic()
            if self.status["running"]:
                self._worked_at = now
            elif now - self._worked_at > IDLE_SECONDS:
                raise StateConflict("Nobody works on the catalogue, so there is nothing to wait for.", hint=IDLE_HINT)
            if before != self.status or _in_hand(self.status):
                self._moved_at = now
            tell(self.status)
        return self.status

    def _is_still(self) -> bool:
        return not self._patient and time.monotonic() - self._moved_at > STILL_SECONDS


def _in_hand(status: CatalogueStatus) -> bool:
    return any(states.get("running") for states in status["jobs"].values())


def _with_lines(waiting: _Waiting) -> CatalogueStatus:
    said, said_at = "", 0.0

    def tell(status: CatalogueStatus) -> None:
        nonlocal said, said_at
        line, now = describe(status), time.monotonic()
        if line != said and (now - said_at >= LINE_SECONDS or not is_busy(status)):
            said, said_at = line, now
            print_note(line)

    return waiting.until_done(tell)


def _with_bars(waiting: _Waiting) -> CatalogueStatus:
    lock = threading.Lock()
    shown = waiting.status

    def picture() -> RenderableType:
        with lock:
            return _bars(shown)

    def tell(status: CatalogueStatus) -> None:
        nonlocal shown
        with lock:
            shown = status

    console = Console(stderr=True, highlight=False, markup=False, emoji=False)
    with Live(get_renderable=picture, console=console, refresh_per_second=FRAMES_PER_SECOND):
        return waiting.until_done(tell)


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
