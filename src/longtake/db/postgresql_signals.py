"""Signals between processes by NOTIFY: coalesced, outside every job's transaction, on connections of their own.

NOTIFY inside a transaction takes a lock that all committing transactions share, so none of ours does that.
"""

from __future__ import annotations

import contextlib
import os
import socket
import threading
from typing import TYPE_CHECKING, Any

import psycopg

from longtake.clock import new_id
from longtake.db.database import Signals

if TYPE_CHECKING:
    from collections.abc import Callable

    from longtake.db.postgresql_session import SessionOptions

CHANNEL = "longtake"
RECONNECT_SECONDS = 1.0
#: NOTIFYs are at least this far apart: under load one stands for many.
COALESCE_SECONDS = 0.002


class PostgresqlSignals(Signals):
    """Starts its sending thread at the first signal sent, its listening thread at the first subscription."""

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
                for topic in topics:
                    connection.execute("SELECT pg_notify(%s, %s)", (CHANNEL, f"{self._sender} {topic}"))
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
