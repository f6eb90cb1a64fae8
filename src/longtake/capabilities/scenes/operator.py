"""What operators see of scenes: figures of their images, which hold credits."""

from typing import Any

from longtake.actions import Action, CreditHolder, Operator
from longtake.capabilities.scenes.tables import scene_figures
from longtake.db import Transaction
from longtake.engine.engine import Engine

#: Images with the statuses of tasks.
IMAGES = (
    "SELECT id, user_id, CASE WHEN status IN ('queued', 'processing') THEN 'running' ELSE status END FROM image_jobs"
)


def runs_figures(tx: Transaction, _engine: Engine) -> dict[str, Any]:
    """Show the scene image queue by status, and the times and failures of the last 24 hours."""
    return scene_figures(tx)


OPERATOR = Operator(actions=[Action("runs.figures", runs_figures)], credit_holders=[CreditHolder(IMAGES)])
