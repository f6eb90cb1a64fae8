"""Which model makes it, when the caller leaves that open."""

from __future__ import annotations

from typing import TYPE_CHECKING

from longtake.client.failures import LongtakeApiError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from longtake.client.shapes import Model


def choose_model(models: Sequence[Model], kind: str | None, name: str | None, references: int) -> tuple[str, str]:
    """Return what is made and by which model: the one of this name, or the first that can be used for it."""
    if name is not None:
        # One that the server does not know is for the server to refuse, in its own words.
        known = next((model["type"] for model in models if model["name"] == name), "image")
        return kind or known, name
    wanted = kind or "image"
    fitting = [model for model in models if model["type"] == wanted and _takes(model, references)]
    usable = next((model["name"] for model in fitting if model["available"]), None)
    if usable is None:
        raise LongtakeApiError(
            f"No model for {wanted}s{f' with {references} reference images' if references else ''} can be used here.",
            code="PROVIDER_NOT_CONFIGURED" if fitting else "MODEL_UNKNOWN",
            hint=_keys(fitting) if fitting else "GET /v1/models lists what there is.",
            facts={"models": [model["name"] for model in fitting]},
        )
    return wanted, usable


def _takes(model: Model, references: int) -> bool:
    return model["references"]["least"] <= references <= model["references"]["most"]


def _keys(models: Sequence[Model]) -> str:
    providers = sorted({model["provider"] for model in models})
    return f"Whoever runs the server has to set a key of a provider: {', '.join(providers)}."
