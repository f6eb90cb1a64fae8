"""PostgreSQL: psycopg on a small pool of threads, each with its own connection; and signals by NOTIFY.

A function is run again after a serialization failure, a deadlock or a lost connection. When the connection is lost
during COMMIT, PostgreSQL itself is asked whether the transaction was committed before anything is run twice.
"""

import asyncio
import contextlib
import os
import random
import socket
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

import psycopg
import sqlalchemy.exc

from longtake.clock import new_id
from longtake.db.database import Call, Database, Signals
from longtake.db.dialects import POSTGRESQL
from longtake.db.errors import DatabaseBusy, DatabaseUnavailable
from longtake.db.postgresql_session import CommitUnknown, Session, SessionOptions, is_lost, is_repeatable, translate

R = TypeVar("R")

#: How long one call goes on trying through failures before its caller is told.
PATIENCE_SECONDS = 8.0
FIRST_PAUSE_SECONDS = 0.02
LONGEST_PAUSE_SECONDS = 1.0
CHANNEL = "longtake"
RECONNECT_SECONDS = 1.0
#: NOTIFYs are at least this far apart: under load one stands for many.
COALESCE_SECONDS = 0.002
#: A NOTIFY is a transaction with a number, whose commit would wait for the disk.
NO_WAIT = "SET synchronous_commit = off"
NOTIFY = "SELECT pg_notify(%s, %s || topic) FROM unnest(%s::text[]) AS topic"


class PostgresqlDatabase(Database):
    """Shared by any number of processes; PostgreSQL coordinates them."""

    dialect = POSTGRESQL

    def __init__(self, options: SessionOptions, *, threads: int = 8, waiting_limit: int = 2_000) -> None:
        self._engine = options.engine()
        self._threads = ThreadPoolExecutor(threads, thread_name_prefix="longtake-db")
        self._local = threading.local()
        self._sessions: list[Session] = []
        self._waiting = 0
        self._waiting_limit = waiting_limit + threads
        self.signals = PostgresqlSignals(options)
        self._urgent = Session(self._engine, self.signals)
        self._urgent_lock = threading.Lock()
        self._closed = False

    def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        self.signals.close()
        self._threads.shutdown()
        for session in [*self._sessions, self._urgent]:
            session.close()

    async def _transact(self, call: Call[R]) -> R:
        if self._closed:
            raise DatabaseUnavailable("The database is closed.")
        if self._waiting >= self._waiting_limit:
            raise DatabaseBusy(f"{self._waiting} calls are waiting for a database connection already.")
        self._waiting += 1
        try:
            loop = asyncio.get_running_loop()
            return await loop.run_in_executor(self._threads, self._in_thread, call)
        finally:
            self._waiting -= 1

    def _transact_blocking(self, call: Call[R]) -> R:
        with self._urgent_lock:
            return self._persist(self._urgent, call)

    def _in_thread(self, call: Call[R]) -> R:
        session: Session | None = getattr(self._local, "session", None)
        if session is None:
            session = self._local.session = Session(self._engine, self.signals)
            self._sessions.append(session)
        return self._persist(session, call)

    def _persist(self, session: Session, call: Call[R]) -> R:
        """Run the function until it is committed, refused for good, or patience ends."""
        give_up_at = time.monotonic() + PATIENCE_SECONDS
        pause = FIRST_PAUSE_SECONDS
        while True:
            try:
                return session.transact(call)
            except CommitUnknown as unknown:
                if self._was_committed(session, unknown, give_up_at):
                    unknown.transaction.committed()
                    result: R = unknown.result
                    return result
                error: Exception = unknown.cause
            except Exception as raised:
                if not is_repeatable(raised):
                    raise translate(raised) from raised
                error = raised
            if time.monotonic() + pause > give_up_at or self._closed:
                raise translate(error) from error
            time.sleep(pause * random.uniform(0.5, 1.0))
            pause = min(pause * 2, LONGEST_PAUSE_SECONDS)

    def _was_committed(self, session: Session, unknown: CommitUnknown, give_up_at: float) -> bool:
        """Ask what became of a transaction whose COMMIT got no answer."""
        while True:
            try:
                status = session.transaction_status(unknown.transaction_id, unknown.server_life)
            except (psycopg.Error, sqlalchemy.exc.DBAPIError) as error:
                if not is_lost(error) or time.monotonic() > give_up_at:
                    raise DatabaseUnavailable(
                        "The connection was lost during COMMIT and the database cannot be asked what became of it."
                    ) from error
                status = "in progress"
            if status == "unknown":
                raise DatabaseUnavailable("PostgreSQL was restarted during COMMIT; what became of it cannot be known.")
            if status != "in progress":
                return status == "committed"
            if time.monotonic() > give_up_at:
                raise DatabaseUnavailable("A transaction whose answer was lost is still in progress.")
            time.sleep(FIRST_PAUSE_SECONDS)


class PostgresqlSignals(Signals):
    """Signals between processes by NOTIFY: coalesced, outside every job's transaction, on connections of their own.

    NOTIFY inside a transaction takes a lock that all committing transactions share, so none of ours does that. The
    sending thread starts at the first signal sent, the listening thread at the first subscription.
    """

    def __init__(self, options: SessionOptions) -> None:
        super().__init__()
        self._options = options
        self._sender = new_id()
        self._topics: set[str] = set()
        self._pending = threading.Event()
        self._closing = threading.Event()
        self._threads: dict[str, threading.Thread] = {}
        self._listening: psycopg.Connection[Any] | None = None

    def subscribe(self, callback: Callable[[str], None]) -> Callable[[], None]:
        unsubscribe = super().subscribe(callback)
        self._start("listen", self._listen_forever)
        return unsubscribe

    def send(self, topic: str) -> None:
        self.deliver(topic)
        with self._lock:
            self._topics.add(topic)
        self._start("notify", self._notify_forever)
        self._pending.set()

    def close(self) -> None:
        self._closing.set()
        self._pending.set()
        listening = self._listening
        if listening is not None:
            # The listener waits in select: the end of its connection wakes it at once, nothing else from outside does.
            with contextlib.suppress(psycopg.Error, OSError), socket.socket(fileno=os.dup(listening.fileno())) as same:
                same.shutdown(socket.SHUT_RDWR)
        for thread in self._threads.values():
            thread.join(timeout=RECONNECT_SECONDS + 2.0)

    def _start(self, name: str, target: Callable[[], None]) -> None:
        if name in self._threads:
            return
        with self._lock:
            if name not in self._threads and not self._closing.is_set():
                thread = self._threads[name] = threading.Thread(target=target, name=f"longtake-{name}", daemon=True)
                thread.start()

    def _notify_forever(self) -> None:
        connection: psycopg.Connection[Any] | None = None
        closing = False
        while not closing:
            self._pending.wait()
            self._pending.clear()
            # Looked at before sending: what was said before the close is still sent.
            closing = self._closing.is_set()
            with self._lock:
                topics, self._topics = self._topics, set()
            try:
                if connection is None:
                    connection = self._options.connect()
                    connection.execute(NO_WAIT)
                connection.execute(NOTIFY, (CHANNEL, f"{self._sender} ", sorted(topics)))
            except psycopg.Error:
                # A lost hint is made good by the next poll.
                connection = None
                self._closing.wait(RECONNECT_SECONDS)
            self._closing.wait(COALESCE_SECONDS)
        if connection is not None:
            connection.close()

    def _listen_forever(self) -> None:
        while not self._closing.is_set():
            try:
                with self._options.connect(statement_limit=False) as connection:
                    connection.execute(f"LISTEN {CHANNEL}")
                    # Signals sent before we listened are lost: look now.
                    self.deliver("jobs")
                    self._listening = connection
                    self._listen(connection)
            except psycopg.Error:
                self._listening = None
                self._closing.wait(RECONNECT_SECONDS)

    def _listen(self, connection: psycopg.Connection[Any]) -> None:
        while not self._closing.is_set():
            for notification in connection.notifies(timeout=0.5):
                sender, _space, topic = notification.payload.partition(" ")
                if sender != self._sender:
                    self.deliver(topic)
