"""The models that can be used, and the checks of a request before anything is written.

Each refusal names the field and what is allowed.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from typing import Any

from longtake.adapters.providers.provider import Provider
from longtake.services.models.errors import (
    InvalidParameter,
    InvalidPrompt,
    ProviderNotConfigured,
    UnknownModel,
    UnknownParameter,
)
from longtake.services.models.model import Model

_SHOWN = 80


class OfferedModels:
    """All models, and which of them can be used now."""

    def __init__(self, models: dict[str, Model], providers: Mapping[str, Provider]) -> None:
        self.models = models
        self._providers = providers

    def available(self, model: Model) -> bool:
        """Return whether the model's provider has a key."""
        return self._providers[model.provider].configured

    def find(self, name: str, type: str) -> Model:  # noqa: A002 - the domain's word
        """Return the model of this name and type, or raise."""
        model = self.models.get(name)
        if model is None or model.type != type:
            fitting = [one.name for one in self.models.values() if one.type == type]
            nearest = difflib.get_close_matches(name, fitting, n=1)
            hint = f"Did you mean {nearest[0]}? " if nearest else ""
            what = f"{name[:_SHOWN]!r} makes {model.type}s" if model else f"There is no model {name[:_SHOWN]!r}"
            raise UnknownModel(f"{what}.", hint=f"{hint}GET /v1/models lists them.", models=fitting)
        if not self.available(model):
            raise ProviderNotConfigured(
                f"The model {model.name} cannot be used: its provider {model.provider} has no key.", model=model.name
            )
        return model


def check_prompt(model: Model, prompt: str) -> str:
    """Return the prompt without surrounding space, or raise what is wrong with it."""
    prompt = prompt.strip()
    if not prompt:
        raise InvalidPrompt("The prompt is empty.", hint="Describe the image or video in words.")
    if len(prompt) > model.prompt_limit:
        raise InvalidPrompt(
            f"The prompt has {len(prompt):,} characters; {model.name} takes at most {model.prompt_limit:,}.",
            limit=model.prompt_limit,
        )
    if any(_cannot_be_stored(one) for one in prompt):
        raise InvalidPrompt("The prompt contains a control character or an unpaired surrogate.")
    return prompt


def _cannot_be_stored(one: str) -> bool:
    return (one < " " and one not in "\n\r\t") or "\ud800" <= one <= "\udfff"


def check_parameters(model: Model, parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Return the parameters with their defaults, or raise what is wrong with one of them."""
    for name, value in parameters.items():
        spec = model.parameters.get(name)
        if spec is None:
            known = ", ".join(model.parameters) or "none"
            raise UnknownParameter(
                f"{model.name} has no parameter {name[:_SHOWN]!r}.",
                hint=f"Its parameters: {known}.",
                parameter=name[:_SHOWN],
            )
        if problem := spec.problem(value):
            raise InvalidParameter(f"The parameter {name} {problem}.", parameter=name)
    return {**model.defaults, **parameters}
