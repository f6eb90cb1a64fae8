"""The interface to the sources of results. The capability that knows the providers implements it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from longtake.services.assets import Asset


@dataclass(frozen=True, slots=True)
class FreshSource:
    """A new address of a result whose old one has ended. `expires_in` is in seconds; None if unknown."""

    url: str
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    expires_in: float | None = 600.0


class ResultSources(Protocol):
    """Tells where and how a result can be downloaded."""

    async def download_headers(self, asset: Asset) -> Mapping[str, str]:
        """Return the headers that the source requires: a provider's key, for that provider's own addresses only."""

    async def fresh(self, asset: Asset) -> FreshSource | None:
        """Ask the provider for a fresh address; None if it has none. Raises if the provider cannot be asked."""


class PlainSources:
    """Sources that need no headers and have no fresh addresses."""

    async def download_headers(self, asset: Asset) -> Mapping[str, str]:  # noqa: ARG002
        """Return no headers."""
        return {}

    async def fresh(self, asset: Asset) -> FreshSource | None:  # noqa: ARG002
        """Return None."""
        return None
