"""Credits in the snapshot."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from pydantic import BaseModel, ConfigDict

from longtake.capability import Context, SnapshotPart
from longtake.services.credits.balances import Balance, balance
from longtake.services.credits.schemas import BalanceView


class CreditSnapshot(BaseModel):
    """The member about credits."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"credits": {"available": 100, "held": 4}}]})

    credits: BalanceView


def part(_context: Context) -> SnapshotPart[Balance]:
    """Return the part."""
    return SnapshotPart(schema=CreditSnapshot, read=balance, show=_show)


async def _show(found: Balance) -> dict[str, Any]:
    return {"credits": asdict(found)}
