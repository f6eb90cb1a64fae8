"""The keys of providers, for adapters: from the settings, else from the vault, without waiting for either."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING

import structlog
from pydantic import SecretStr

from longtake.errors import LongtakeError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

    from longtake.db import Database
    from longtake.services.vault.vault import Vault
    from longtake.settings import Settings

log = structlog.get_logger(__name__)

#: After this long, every process knows about a key that was set, changed or removed.
REFRESH_SECONDS = 5.0


class KeySource:
    """Returns keys from memory at once; `kept_fresh` reads the vault every few seconds."""

    def __init__(
        self,
        settings: Settings,
        vault: Vault,
        database: Database,
        on_change: Callable[[], Awaitable[object]] | None = None,
    ) -> None:
        self._settings = settings
        self._vault = vault
        self._database = database
        self._on_change = on_change
        self._stored: dict[str, str] = {}
        self._unreadable: frozenset[str] = frozenset()

    def __call__(self, name: str) -> str:
        """Return the key, or an empty string."""
        configured = getattr(self._settings, name, None)
        value = configured.get_secret_value() if isinstance(configured, SecretStr) else ""
        return value or self._stored.get(name, "")

    async def refresh(self) -> None:
        """Read the vault now. A secret that cannot be opened does not affect the others."""
        found = await self._database.read(self._vault.get_all)
        before, self._stored = self._stored, {name: value for name, value in found.items() if value is not None}
        if self._on_change is not None and self._stored != before:
            await self._on_change()
        unreadable = frozenset(found) - frozenset(self._stored)
        if unreadable - self._unreadable:
            log.error("stored secrets cannot be opened with this key", action="vault", names=sorted(unreadable))
        self._unreadable = unreadable

    @contextlib.asynccontextmanager
    async def kept_fresh(self, seconds: float = REFRESH_SECONDS) -> AsyncIterator[None]:
        """Read the vault now, and again every few seconds until the block ends."""
        await self.refresh()
        task = asyncio.create_task(self._refresh_forever(seconds))
        try:
            yield
        finally:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task

    async def _refresh_forever(self, seconds: float) -> None:
        while True:
            await asyncio.sleep(seconds)
            try:
                await self.refresh()
            except LongtakeError as error:
                # The keys read last stay in use.
                log.warning("vault not readable", action="vault", code=error.code)
