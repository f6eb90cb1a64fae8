"""What operators see of generation: figures next to their targets, and the tasks that hold credits."""

from typing import Annotated, Any

from pydantic import Field

from longtake.actions import Action, CreditHolder, Operator
from longtake.capabilities.generation.health import generation_figures
from longtake.db import Transaction
from longtake.engine.engine import Engine

Hours = Annotated[float, Field(gt=0, le=24 * 366, allow_inf_nan=False)]


def figures_generation(tx: Transaction, _engine: Engine, *, hours: Hours = 24.0) -> dict[str, Any]:
    """Show how many tasks succeed, how long they take and how soon they are polled, next to the targets."""
    return generation_figures(tx, hours)


OPERATOR = Operator(
    actions=[Action("figures.generation", figures_generation)],
    credit_holders=[
        CreditHolder("SELECT id, user_id, status FROM tasks", refunds="SELECT id, credits_refunded FROM tasks")
    ],
)
