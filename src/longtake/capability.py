"""The shape of a capability: what one registers, and what it gets to work with.

Each package that `server/capabilities.py` names has a module `capability` with a function of that name::

    def capability(context: Context) -> Capability:
        orders = OrderJobs(context.database)
        return Capability(kinds=orders.kinds(), routers="shop.orders.routes:routers")
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

if TYPE_CHECKING:
    import random

    from pydantic import BaseModel

    from longtake.adapters.decoder.pool import DecoderPool
    from longtake.adapters.net import HttpClient
    from longtake.adapters.providers.provider import Provider
    from longtake.adapters.storage import Storage
    from longtake.clock import Clock
    from longtake.db import Database, Transaction
    from longtake.engine.engine import Engine
    from longtake.engine.jobs import Job
    from longtake.engine.kinds import JobKind
    from longtake.engine.lanes import Lane
    from longtake.engine.schedules import Schedule
    from longtake.settings import Settings

T = TypeVar("T")


@dataclass(frozen=True, kw_only=True)
class Capability:
    """What a capability, or a service that others share, adds to a process."""

    kinds: Sequence[JobKind] = ()
    lanes: Sequence[Lane] = ()
    schedules: Sequence[Schedule] = ()
    #: A function (context, engine) that returns its routes, as "module:function". Only servers import the module.
    routers: str = ""
    #: Objects that later capabilities get from the context by their class.
    offers: Sequence[object] = ()
    #: Lanes that stand still while a key is missing or wrong, by the provider whose key it is.
    keyed_lanes: Mapping[str, Sequence[Lane]] = field(default_factory=dict)
    #: Types of the events that it writes for users, who can ask for each of them and for families such as `task.*`.
    event_types: Sequence[str] = ()
    #: A function (context) that returns its SnapshotPart, named like that of the routes.
    snapshot: str = ""
    asset_owners: Sequence[AssetOwner] = ()
    account_removers: Sequence[AccountRemover] = ()
    #: Transactions of each process before it works or serves.
    on_start: Sequence[Callable[[Transaction], None]] = ()
    #: What runs beside HTTP in every server, and beside every worker.
    beside_server: Sequence[Callable[[], AbstractAsyncContextManager[None]]] = ()
    beside_worker: Sequence[Callable[[Engine], AbstractAsyncContextManager[None]]] = ()
    #: Called when a server begins to stop, before its HTTP does.
    on_stop: Sequence[Callable[[], None]] = ()


@dataclass(frozen=True, kw_only=True)
class Context:
    """What a capability gets: the parts of this process, and what the capabilities before it offer."""

    settings: Settings
    database: Database
    clock: Clock
    random: random.Random
    http: HttpClient
    storage: Storage
    decoders: DecoderPool
    providers: Mapping[str, Provider]
    #: Returns a provider's key as it is now, or an empty string.
    key_of: Callable[[str], str]
    #: Returns the secret for a purpose.
    secret: Callable[[str], bytes]
    #: Where this server is reached on this machine; empty in a worker.
    own_url: str = ""
    #: Those made so far: all of them once the engine is built.
    capabilities: list[Capability] = field(default_factory=list)

    def needs_key(self, url: str) -> bool:
        """Return whether a file at this address is given only to holders of a provider's key."""
        return any(one.download_headers(url) for one in self.providers.values())

    def get(self, kind: type[T]) -> T:
        """Return the object of this class that an earlier capability offers."""
        for one in self.capabilities:
            for offered in one.offers:
                if isinstance(offered, kind):
                    return offered
        raise LookupError(f"No capability before this one offers a {kind.__name__}.")

    @property
    def event_types(self) -> list[str]:
        """The types of events that users can ask for."""
        return self.every(lambda one: one.event_types)

    def every(self, listed: Callable[[Capability], Sequence[T]]) -> list[T]:
        """Return what all capabilities have registered, in their order."""
        return [item for one in self.capabilities for item in listed(one)]


@dataclass(frozen=True, kw_only=True)
class SnapshotPart(Generic[T]):
    """Members of the snapshot: everything that a page shows of one moment."""

    #: The members, with an example.
    schema: type[BaseModel]
    #: Reads a user's rows, in the transaction of the whole snapshot.
    read: Callable[[Transaction, str], T]
    #: Returns the members of what was read.
    show: Callable[[T], Awaitable[dict[str, Any]]]


@dataclass(frozen=True, slots=True)
class AccountRemover:
    """Removes the data of a user who deleted their account; it touches nothing that was made later."""

    #: Removes a page of what the user had at that time; says whether there may be more.
    remove: Callable[[Transaction, Engine, str, datetime], bool]
    #: Whether it runs in the transaction of the request, before the user is answered; else in a job afterwards.
    at_once: bool = False


class OwnedAsset(Protocol):
    """The facts of an asset by which its owner knows it."""

    @property
    def id(self) -> str: ...
    @property
    def task_id(self) -> str | None: ...
    @property
    def role(self) -> str: ...
    @property
    def position(self) -> int: ...
    @property
    def source_url(self) -> str | None: ...


@dataclass(frozen=True, slots=True)
class FreshSource:
    """A new address of a file whose old one has ended. `expires_in` is in seconds; None if unknown."""

    url: str
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    expires_in: float | None = 600.0


class AssetOwner:
    """What media asks the capability that owns an asset. These answers are for assets without an owner."""

    async def download_headers(self, _asset: OwnedAsset) -> Mapping[str, str]:
        """Return the headers that the source requires: a provider's key, for that provider's own addresses only."""
        return {}

    async def fresh_source(self, _job: Job, _asset: OwnedAsset) -> FreshSource | None:
        """Return a fresh address; None if there is none. Raises if the provider cannot be asked."""
        return None

    def lost(self, tx: Transaction, assets: Sequence[OwnedAsset]) -> None:
        """Take note that assets can no longer be copied. Called once for each, after all their rows are locked."""

    def require_unused(self, tx: Transaction, user_id: str, asset_id: str) -> None:
        """Raise StateConflict while the user's asset is in use."""
