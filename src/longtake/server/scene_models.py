"""Offers generation's models to scenes, because the two capabilities must not import each other."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from longtake.adapters.providers.provider import GenerationRequest, Provider
from longtake.capabilities.generation.models import Model
from longtake.capabilities.generation.validation import OfferedModels, check_parameters, check_prompt
from longtake.capabilities.scenes.models import SceneModel
from longtake.errors import ModelNotForScenes, UnknownModel


class OfferedSceneModels:
    """The image models whose provider answers at once and accepts a repeated request, in the order of the offer."""

    def __init__(self, models: Mapping[str, Model], providers: Mapping[str, Provider]) -> None:
        self._offer = OfferedModels(models, providers)
        self._providers = providers

    def find(self, name: str | None) -> SceneModel:
        """Return the model; without a name the first one."""
        fitting = [one.name for one in self._offer.models.values() if self._fits(one)]
        if name is None:
            if not fitting:
                raise UnknownModel("No configured model can be used for scenes.", models=[])
            name = fitting[0]
        known = self._offer.models.get(name)
        if known is not None and known.type == "image" and not self._fits(known):
            raise ModelNotForScenes(
                f"The model {name} cannot be used for scenes.", hint=f"Use {' or '.join(fitting)}.", models=fitting
            )
        model = self._offer.find(name, "image")
        return SceneModel(model.name, model.provider, self._providers[model.provider].account, model.credits)

    def check_parameters(self, name: str, parameters: Mapping[str, Any]) -> dict[str, Any]:
        """Return the parameters with all defaults."""
        return check_parameters(self._offer.models[name], parameters)

    def check_prompt(self, name: str, prompt: str) -> str:
        """Return the prompt as it is kept."""
        return check_prompt(self._offer.models[name], prompt)

    def request(self, name: str, prompt: str, parameters: Mapping[str, Any]) -> GenerationRequest | None:
        """Return the request for the provider; None when the model is no longer offered."""
        model = self._offer.models.get(name)
        if model is None:
            return None
        return GenerationRequest(model=model.remote, prompt=prompt, parameters=model.wire_parameters(parameters))

    def accounts(self) -> list[str]:
        """Return the provider accounts that scene images may use."""
        return sorted({self._providers[one.provider].account for one in self._offer.models.values() if self._fits(one)})

    def _fits(self, model: Model) -> bool:
        provider = self._providers[model.provider]
        least, _most = model.references
        return (
            model.type == "image" and not least and provider.submits == "repeatable" and provider.answers == "at once"
        )
