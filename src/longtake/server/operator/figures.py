"""Actions that show figures next to their targets."""

from typing import Annotated, Any

from pydantic import Field

from longtake.capabilities.generation.health import generation_figures
from longtake.capabilities.scenes.tables import scene_figures
from longtake.db import Transaction
from longtake.engine.engine import Engine

Hours = Annotated[float, Field(gt=0, le=24 * 366, allow_inf_nan=False)]


def figures_generation(tx: Transaction, _engine: Engine, *, hours: Hours = 24.0) -> dict[str, Any]:
    """Show how many tasks succeed, how long they take and how soon they are polled, next to the targets."""
    return generation_figures(tx, hours)


def runs_figures(tx: Transaction, _engine: Engine) -> dict[str, Any]:
    """Show the scene image queue by status, and the times and failures of the last 24 hours."""
    return scene_figures(tx)
