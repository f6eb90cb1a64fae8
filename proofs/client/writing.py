"""Events of one user, written all the time, and the log that every tab must have had in the end."""

from __future__ import annotations

import contextlib
import http.client
import threading
import time
from typing import TYPE_CHECKING

from tests.wait import until

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from proofs.client.pages import BrowserTab
    from tests.api.stage import Api


class Writer:
    """Says one thing after the other in a conversation: each is an event. A server that is away is tried again."""

    def __init__(self, api: Api, user: str, pause: float) -> None:
        self._api = api
        self._user = user
        self._pause = pause
        self._conversation = api.conversation(user)
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self.written = 0

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stopped.set()
        self._thread.join()

    def _run(self) -> None:
        path = f"/v1/conversations/{self._conversation}/messages"
        while not self._stopped.wait(self._pause):
            with contextlib.suppress(OSError, http.client.HTTPException):
                answer = self._api.ask("POST", path, {"text": f"number {self.written}"}, user=self._user)
                self.written += answer.status == 201


@contextlib.contextmanager
def writing(api: Api, user: str = "ada", pause: float = 0.01) -> Iterator[Writer]:
    """Write events until the block ends."""
    writer = Writer(api, user, pause)
    writer.start()
    try:
        yield writer
    finally:
        writer.stop()


def events_of(api: Api, user: str = "ada") -> list[str]:
    """Return the cursors of all events of a user, as the database has them."""
    rows = api.sql(
        "SELECT CAST(events.transaction_id AS text), sequence FROM events"
        f" WHERE user_id = '{user}' ORDER BY events.transaction_id, sequence"
    )
    return [f"{one}.{other}" for one, other in rows]


def _key(cursor: str) -> tuple[int, int]:
    one, other = cursor.split(".")
    return int(one), int(other)


async def assert_same_log(api: Api, tabs: Sequence[BrowserTab], user: str = "ada") -> int:
    """Check that every tab had every event since it began, once and in order; return how many that were."""
    written = events_of(api, user)
    counts = []
    for number, tab in enumerate(tabs):
        begun = _key(await tab.run("begun"))
        expected = [cursor for cursor in written if _key(cursor) > begun]

        async def caught_up(tab: BrowserTab = tab, most: int = len(expected)) -> bool:
            return len(await tab.log()) >= most

        with contextlib.suppress(AssertionError):  # the comparison says more
            await until(caught_up, "catching up")
        found = await tab.log()
        missing = [cursor for cursor in expected if cursor not in set(found)]
        doubled = len(found) - len(set(found))
        assert found == expected, f"tab {number}: {len(missing)} missing ({missing[:3]}), {doubled} doubled"
        assert tab.errors == []
        counts.append(len(found))
    return min(counts)


def milliseconds_since(started: float) -> float:
    return (time.perf_counter() - started) * 1000
