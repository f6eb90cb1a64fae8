"""What scenes must know of models. Who offers them is passed in: this package knows no other capability."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from longtake.adapters.providers.provider import GenerationRequest


@dataclass(frozen=True, slots=True)
class SceneModel:
    """A model that may be used for scenes: its provider answers at once, and may be asked again."""

    name: str
    provider: str
    account: str
    price: int

    @property
    def lane(self) -> str:
        """Where its images wait."""
        return lane_name(self.account)


class SceneModels(Protocol):
    """The models that may be used, and the checks of what they are told."""

    def find(self, name: str | None) -> SceneModel:
        """Return the model; without a name the first there is.

        Raises UnknownModel, ModelNotForScenes or ProviderNotConfigured.
        """

    def check_parameters(self, name: str, parameters: Mapping[str, Any]) -> dict[str, Any]:
        """Return the parameters with all defaults filled in, or raise what is wrong."""

    def check_prompt(self, name: str, prompt: str) -> str:
        """Return the prompt as it is kept, or raise InvalidPrompt."""

    def request(self, name: str, prompt: str, parameters: Mapping[str, Any]) -> GenerationRequest | None:
        """Return what to ask the provider; None when the model is no longer offered."""


def lane_name(account: str) -> str:
    """Return the lane in which images of scenes wait for this account with a provider."""
    return f"{account}.scenes"
