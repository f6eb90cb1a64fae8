"""Results of which no copy could ever be had: the task stays completed, and its price is given back once."""

from __future__ import annotations

from sqlalchemy import select

from longtake.capabilities.generation.tables import tasks
from longtake.db import Transaction
from longtake.engine.events import append_event
from longtake.errors import StateConflict
from longtake.services.assets import Asset, assets
from longtake.services.credits import refund

LOST = ("failed", "expired")


def refund_lost(tx: Transaction, asset: Asset) -> None:
    """Refund the task when the last of its results is lost."""
    if asset.task_id is None or asset.role != "result":
        return
    task = tx.execute(select(tasks).where(tasks.c.id == asset.task_id).with_for_update()).first()
    if task is None or not task.price:
        return
    left = (assets.c.task_id == asset.task_id, assets.c.role == "result", assets.c.mirror_state.not_in(LOST))
    if tx.execute(select(assets.c.id).where(*left, assets.c.id != asset.id).limit(1)).first() is not None:
        return
    try:
        refund(tx, task_id=asset.task_id, made_by="longtake", reason="No copy of the result could be had.")
    except StateConflict:
        # Refunded before, by hand or with an earlier loss.
        return
    data = {"status": task.status, "credits": "refunded"}
    append_event(tx, "task.refunded", subject=asset.task_id, user_id=task.user_id, data=data)
