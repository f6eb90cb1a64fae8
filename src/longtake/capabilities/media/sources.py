"""Where results come from. The capability that knows the providers says it; here it is only asked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from longtake.services.assets import Asset


@dataclass(frozen=True, slots=True)
class FreshSource:
    """A new address for a result whose old one has ended; for None seconds nobody knows how long it lives."""

    url: str
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    expires_in: float | None = 600.0


class ResultSources(Protocol):
    """What copying a result must ask about it."""

    async def download_headers(self, asset: Asset) -> Mapping[str, str]:
        """Return the headers its source wants: a provider's key, only for that provider's own address."""

    async def fresh(self, asset: Asset) -> FreshSource | None:
        """Ask the provider for the result once more. None: it has none any more. Errors: it could not be asked."""


class PlainSources:
    """Sources that want no headers and are never renewed."""

    async def download_headers(self, asset: Asset) -> Mapping[str, str]:  # noqa: ARG002
        """Return none."""
        return {}

    async def fresh(self, asset: Asset) -> FreshSource | None:  # noqa: ARG002
        """Return none."""
        return None
