"""The application: its declarations, and the engine built from them.

Nothing is found by import or decorator. The built-in kinds are declared here; your own program declares its
kinds in a function that ``longtake serve --app module:function`` calls::

    def register(application: Application) -> None:
        application.add(kinds=[JobKind("shop.receipt", send_receipt)], lanes=[Lane("mail", max_running=5)])
"""

from __future__ import annotations

import contextlib
import importlib
import os
import random
import sys
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from longtake.adapters.decoder.pool import DecoderPool
from longtake.adapters.net import HttpClient
from longtake.adapters.providers.registry import build_providers
from longtake.adapters.storage import open_storage
from longtake.capability import Capability, Context
from longtake.clock import Clock, SystemClock
from longtake.db import Database, Transaction
from longtake.engine.engine import Engine
from longtake.engine.jobs import Job
from longtake.engine.kinds import JobKind
from longtake.engine.lanes import Lane
from longtake.engine.prune import prune_kind, prune_schedule
from longtake.engine.schedules import Schedule
from longtake.engine.worker import Worker
from longtake.server.capabilities import CAPABILITIES, add_capabilities, build_routers, operator_actions, snapshot_parts
from longtake.server.errors import InvalidApplication
from longtake.services.alerts import Severity, raise_alert
from longtake.services.provider_calls import Breaker, try_lanes_again
from longtake.services.vault.root_secret import RootSecret
from longtake.services.vault.vault import KeySource, Vault
from longtake.settings import Settings

if TYPE_CHECKING:
    from fastapi import APIRouter

Register = Callable[["Application"], None]


class Application:
    """All parts of one process. You add kinds, lanes and schedules first; the engine is built from them."""

    def __init__(
        self,
        settings: Settings,
        database: Database,
        *,
        clock: Clock | None = None,
        source: random.Random | None = None,
        own_url: str = "",
        capabilities: Sequence[str] = CAPABILITIES,
    ) -> None:
        self.settings = settings
        self.database = database
        # Read or made only when they are needed: declaring an application leaves no file behind.
        self.root_secret = RootSecret.of(settings)
        self.vault = Vault.of(settings, self.root_secret)
        self.keys = KeySource(settings, self.vault, database, self._try_lanes_again)
        self.actions = operator_actions(lambda: self.vault, capabilities)
        self.kinds: list[JobKind] = []
        self.lanes: list[Lane] = []
        self.schedules: list[Schedule] = []
        self._engine: Engine | None = None
        self.clock = clock or SystemClock()
        http = HttpClient(allowed_addresses=settings.allow_addresses.split(","))
        self.context = Context(
            settings=settings,
            database=database,
            clock=self.clock,
            random=source or random.Random(),
            http=http,
            storage=open_storage(settings),
            decoders=DecoderPool(settings.decoders or os.cpu_count() or 1),
            providers=build_providers(settings, http, self.keys, self.clock),
            key_of=self.keys,
            secret=self.root_secret.derive,
            own_url=own_url,
            # The breaker knows which providers are failing, whoever asked them.
            capabilities=[Capability(offers=[self.vault, Breaker()])],
        )
        add_capabilities(self.context, capabilities)
        for one in self.context.capabilities:
            self.add(kinds=one.kinds, lanes=one.lanes, schedules=one.schedules)
        self.add(
            kinds=[prune_kind(database, history_days=settings.history_days, events_days=settings.events_days)],
            schedules=[prune_schedule()],
        )

    def add(
        self,
        *,
        kinds: Iterable[JobKind] = (),
        lanes: Iterable[Lane] = (),
        schedules: Iterable[Schedule] = (),
    ) -> None:
        """Declare kinds, lanes and schedules."""
        if self._engine is not None:
            raise InvalidApplication("Kinds, lanes and schedules are declared before the engine starts, not later.")
        self.kinds += kinds
        self.lanes += lanes
        self.schedules += schedules

    @property
    def engine(self) -> Engine:
        """The engine, once everything is declared. Handlers can use it; a register function cannot."""
        if self._engine is None:
            raise InvalidApplication("The engine is there only after all has been declared; use it inside handlers.")
        return self._engine

    def build(self, register: Register | None = None) -> Engine:
        """Let ``register`` add its declarations, then build the engine from all of them."""
        if register is not None:
            register(self)
        self._engine = Engine(
            self.database,
            self.kinds,
            self.lanes,
            self.schedules,
            clock=self.clock,
            random_source=self.context.random,
            on_quarantine=alert_about_quarantine,
        )
        return self._engine

    @contextlib.asynccontextmanager
    async def ready(self) -> AsyncIterator[None]:
        """Open what handlers and routes need, such as keys, storage and connections; close it at the end."""
        try:
            await self.context.storage.check()
            await self._try_lanes_again()
            for one in self.context.every(lambda one: one.on_start):
                await self.database.run(one)
            async with self.keys.kept_fresh():
                yield
        finally:
            await self.close()

    async def close(self) -> None:
        """Close connections and decoders."""
        await self.context.decoders.close()
        await self.context.http.close()
        await self.context.storage.close()

    async def _try_lanes_again(self) -> None:
        keyed = self.context.every(lambda one: list(one.keyed_lanes.items()))
        lanes = frozenset(lane.name for _provider, lanes in keyed for lane in lanes)
        await self.database.run(try_lanes_again, [provider for provider, _lanes in keyed], lanes)

    def routers(self) -> list[APIRouter]:
        """Return the routes of all capabilities, and those that are about all of them."""
        # A worker has no routes, and starts without the web framework.
        from longtake.server import drain_routes, snapshot  # noqa: PLC0415

        routers = build_routers(self.context, self.engine)
        processing = drain_routes.Processing(self.engine, self.settings, self.beside_worker)
        shown = snapshot.build_routes(self.database, snapshot_parts(self.context))
        return [*routers, shown, drain_routes.build_routes(processing)]

    @contextlib.asynccontextmanager
    async def beside_worker(self) -> AsyncIterator[None]:
        """Run what capabilities run beside a worker."""
        async with contextlib.AsyncExitStack() as stack:
            for one in self.context.every(lambda one: one.beside_worker):
                await stack.enter_async_context(one(self.engine))
            yield

    def worker(self) -> Worker:
        """Return a worker with this process's settings."""
        settings = self.settings
        return Worker(
            self.engine,
            concurrency=settings.worker_concurrency,
            poll_seconds=settings.poll_seconds,
            lease_seconds=settings.lease_seconds,
            heartbeat_seconds=settings.heartbeat_seconds,
            stop_grace_seconds=settings.stop_grace_seconds,
        )


def alert_about_quarantine(tx: Transaction, job: Job) -> None:
    """Raise an alert for a job that seems to kill its workers; it does not run again until someone retries it."""
    message = (
        f"A job of kind {job.kind} was running each time its worker died, and is not run again by itself."
        f" `longtake jobs show {job.id}` has its history, `longtake jobs retry {job.id}` gives it another chance."
    )
    raise_alert(tx, Severity.CRITICAL, "JOB_QUARANTINED", message, subject=job.id)


def find_register(name: str) -> Register | None:
    """Return the function that ``module:function`` names; the working directory is searched too."""
    if not name:
        return None
    module_name, _colon, function_name = name.partition(":")
    if not module_name or not function_name:
        raise InvalidApplication(f"{name!r} is not of the form module:function.")
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
    try:
        module = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        missing = error.name or module_name
        if module_name != missing and not module_name.startswith(f"{missing}."):
            raise InvalidApplication(f"{module_name} needs the module {missing!r}, which is not installed.") from error
        raise InvalidApplication(
            f"There is no module {missing!r}, neither installed nor in the working directory."
        ) from error
    except Exception as error:
        raise InvalidApplication(f"{module_name} cannot be imported: {type(error).__name__}: {error}.") from error
    function = getattr(module, function_name, None)
    if not callable(function):
        raise InvalidApplication(f"The module {module_name!r} has no function {function_name!r}.")
    register: Register = function
    return register
