"""What every database offers: plain functions, run in one transaction each.

``await database.run(function, *arguments, **named)`` calls ``function(tx, *arguments, **named)`` in a write transaction
and answers after its commit. The function may be called again after a lost connection, so it must not have effects
outside the database; ids and times it needs are made before.
"""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, ParamSpec, TypeVar, TypeVarTuple

from longtake.db.errors import DatabaseReadOnly, DatabaseUnavailable

if TYPE_CHECKING:
    import asyncio
    from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterable, Mapping, Sequence

    from sqlalchemy import Connection, CursorResult, Executable

    from longtake.db.prepared import Prepared

Ts = TypeVarTuple("Ts")
R = TypeVar("R")
Q = ParamSpec("Q")

#: Trouble that passes by itself. Anything else is a mistake of ours or the handler's, and waiting would not help.
TRANSIENT = (DatabaseUnavailable, DatabaseReadOnly)
PAUSE_SECONDS = 0.5


class Transaction:
    """The only thing a transaction function sees: it can ask and change, but not commit."""

    __slots__ = ("_callbacks", "_connection", "_cursor", "_signals", "_topics", "dialect", "user")

    def __init__(self, connection: Connection, cursor: Any, signals: Signals, user: str | None = None) -> None:
        self._connection = connection
        self._cursor = cursor
        self._signals = signals
        self._topics: set[str] = set()
        self._callbacks: list[Callable[[], None]] = []
        self.dialect: str = connection.dialect.name
        self.user = user

    def execute(
        self, statement: Executable, parameters: Mapping[str, Any] | Sequence[Mapping[str, Any]] | None = None
    ) -> CursorResult[Any]:
        return self._connection.execute(statement, parameters)

    def run(self, statement: Prepared, **values: Any) -> list[Any]:
        """Run a statement that was prepared, with a value for each of its names; return its rows."""
        form = statement.form(self._connection.dialect)
        return form.rows(self.sql(form.sql, form.parameters(values)))

    def sql(self, statement: str, parameters: Sequence[Any] | Mapping[str, Any] = ()) -> list[tuple[Any, ...]]:
        """Run one statement at the driver, for the few hot paths where Core's cost shows; return its rows."""
        cursor = self._cursor
        cursor.execute(statement, parameters)
        # psycopg makes a description of every column each time it is asked; whether there are any is known without.
        result = getattr(cursor, "pgresult", None)
        found = cursor.description is not None if result is None else result.nfields > 0
        return cursor.fetchall() if found else []

    def sql_many(self, statement: str, rows: Iterable[Sequence[Any]]) -> None:
        """Run one statement at the driver for each row of parameters."""
        self._cursor.executemany(statement, rows)

    def after_commit(self, callback: Callable[[], None]) -> None:
        """Call back once, after the commit, on the database's thread: be quick. What it raises is only logged."""
        if callback not in self._callbacks:
            self._callbacks.append(callback)

    def signal(self, topic: str) -> None:
        """Tell everybody about a topic once the transaction is durable; many in one transaction are one signal."""
        self._topics.add(topic)

    def committed(self) -> None:
        """Run the callbacks and send the signals. For the database alone."""
        for topic in sorted(self._topics):
            self._callbacks.append(partial(self._signals.send, topic))
        for callback in self._callbacks:
            try:
                callback()
            except Exception:  # noqa: BLE001 - it is logged, with its traceback
                # Here: every command imports this module, few of them ever log.
                import structlog  # noqa: PLC0415

                structlog.get_logger(__name__).exception("a callback after the commit failed", action="after_commit")


async def retry_until_available(call: Callable[..., Awaitable[R]], *arguments: Any) -> R:
    """Return what the call returns, tried until the database answers: for what has to be written."""
    # Here, as in `committed`: few commands wait for a database.
    import asyncio  # noqa: PLC0415

    import structlog  # noqa: PLC0415

    while True:
        try:
            return await call(*arguments)
        except TRANSIENT as error:
            log = structlog.get_logger(__name__)
            log.warning("database trouble, trying again", action="wait", code=error.code, error=error.message)
            await asyncio.sleep(PAUSE_SECONDS)


def planned_once(function: Callable[Q, R]) -> Callable[Q, R]:
    """Let PostgreSQL keep the plans of a transaction function's statements; elsewhere it plans for every call.

    Only for functions whose plans are right whatever the values and however many rows there are: inserts, and rows
    found by a whole unique key.
    """
    function.planned_once = True  # type: ignore[attr-defined]
    return function


@dataclass(frozen=True, slots=True)
class Call(Generic[R]):
    """A transaction function, with all that it is to be called with."""

    function: Callable[..., R]
    arguments: tuple[Any, ...]
    named: dict[str, Any]
    user: str | None = None
    read_only: bool = False

    def within(self, tx: Transaction) -> R:
        return self.function(tx, *self.arguments, **self.named)


class Database(ABC):
    """SQLite or PostgreSQL; open one with :func:`longtake.db.open_database`."""

    dialect: str
    signals: Signals
    #: Where only one process can have the database open: this opening's own name. Whatever others began is over.
    incarnation: str | None = None

    async def run(
        self, function: Callable[[Transaction, *Ts], R], *arguments: *Ts, as_user: str | None = None, **named: Any
    ) -> R:
        """Call the function in one write transaction; answer after the commit, raise if nothing was written."""
        return await self._transact(Call(function, arguments, named, as_user))

    async def read(
        self, function: Callable[[Transaction, *Ts], R], *arguments: *Ts, as_user: str | None = None, **named: Any
    ) -> R:
        """Call the function in a read-only transaction that sees one moment's state."""
        return await self._transact(Call(function, arguments, named, as_user, read_only=True))

    def run_blocking(self, function: Callable[[Transaction, *Ts], R], *arguments: *Ts, **named: Any) -> R:
        """Do the same on a thread that may wait. PostgreSQL has a connection for it: it never queues behind others."""
        return self._transact_blocking(Call(function, arguments, named))

    @abstractmethod
    async def _transact(self, call: Call[R]) -> R:
        """Return what the function returns once its transaction is committed."""

    @abstractmethod
    def _transact_blocking(self, call: Call[R]) -> R:
        """Do the same on the caller's thread."""

    @abstractmethod
    def close(self) -> None:
        """Finish what was begun, then let go of connections, threads and locks."""


class Signals:
    """Hints that something changed, which save the wait for the next poll. They may be lost: polling is the truth.

    Topics go to the subscribers in this process; a database that others share passes them on.
    """

    def __init__(self) -> None:
        self._subscribers: list[Callable[[str], None]] = []
        self._lock = threading.Lock()

    def subscribe(self, callback: Callable[[str], None]) -> Callable[[], None]:
        """Call back with each topic, on any thread; return the way to stop that."""
        with self._lock:
            self._subscribers = [*self._subscribers, callback]

        def unsubscribe() -> None:
            with self._lock:
                self._subscribers = [one for one in self._subscribers if one is not callback]

        return unsubscribe

    @asynccontextmanager
    async def heeded(self, topic: str, wake: asyncio.Event, rounds: Coroutine[Any, Any, None]) -> AsyncIterator[None]:
        """Let `rounds` go on until the block ends; `wake` is set whenever the topic is heard."""
        # Here: commands that only ask a server import this module, and have no event loop.
        import asyncio  # noqa: PLC0415

        loop = asyncio.get_running_loop()

        def heard(one: str) -> None:
            if one == topic:
                loop.call_soon_threadsafe(wake.set)

        unsubscribe = self.subscribe(heard)
        task = asyncio.create_task(rounds)
        try:
            yield
        finally:
            unsubscribe()
            task.cancel()
            await asyncio.wait([task])

    def send(self, topic: str) -> None:
        """Tell this process and all others that share the database."""
        self.deliver(topic)

    def deliver(self, topic: str) -> None:
        """Tell the subscribers in this process."""
        for callback in self._subscribers:
            callback(topic)

    def close(self) -> None:
        """Stop passing signals on."""
