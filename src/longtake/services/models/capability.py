"""Models: built-in ones and the operator's own, for every capability that asks providers."""

from __future__ import annotations

from pathlib import Path

from longtake.capability import Capability, Context
from longtake.errors import SettingsError
from longtake.services.models import OfferedModels, load_models


def capability(context: Context) -> Capability:
    """Return what models register."""
    file = context.settings.models_file
    models = load_models(Path(file) if file else None)
    unknown = sorted({model.provider for model in models.values()} - set(context.providers))
    if unknown:
        raise SettingsError(f"LONGTAKE_MODELS_FILE: there is no provider {unknown[0]!r}.")
    return Capability(offers=[OfferedModels(models, context.providers)])
