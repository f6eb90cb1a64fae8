"""Picks a model when the caller names none."""

from __future__ import annotations

from typing import TYPE_CHECKING

from longtake.client.errors import LongtakeApiError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from longtake.client.shapes import Model


def choose_model(models: Sequence[Model], kind: str | None, name: str | None, references: int) -> tuple[str, str]:
    """Return type and model: the named model, or the first usable one for the type and number of reference images."""
    if name is not None:
        # The server refuses a name it does not know, in its own words.
        known = next((model["type"] for model in models if model["name"] == name), "image")
        return kind or known, name
    task_type = kind or "image"
    inputs = f" with {references} reference images" if references else ""
    fitting = [model for model in models if model["type"] == task_type and _takes(model, references)]
    usable = next((model["name"] for model in fitting if model["available"]), None)
    if usable is None:
        raise LongtakeApiError(
            f"No model for {task_type}s{inputs} is available on this server.",
            code="PROVIDER_NOT_CONFIGURED" if fitting else "MODEL_UNKNOWN",
            hint=_keys(fitting) if fitting else "GET /v1/models lists all models.",
            facts={"models": [model["name"] for model in fitting]},
        )
    return task_type, usable


def _takes(model: Model, references: int) -> bool:
    return model["references"]["least"] <= references <= model["references"]["most"]


def _keys(models: Sequence[Model]) -> str:
    providers = sorted({model["provider"] for model in models})
    return f"The server's operator must set a provider's key: {', '.join(providers)}."
