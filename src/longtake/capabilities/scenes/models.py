"""The models that scenes may use, and the lanes of their images. Another capability offers the models; see server/."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from longtake.adapters.providers.provider import GenerationRequest
from longtake.engine.lanes import Lane

MINUTE = 60.0
#: Above this rate a minute's calls are counted and no longer spaced: spacing would cost a good part of the rate.
SPACED_MOST = 60
#: The most seconds between a lane's permit and the call to the provider, in which a row is written. A slower job is
#: given back, and the lane's limits are longer by as much, so that calls are never closer than allowed.
BEGIN_SECONDS = 0.15


@dataclass(frozen=True, slots=True)
class SceneModel:
    """A model for scenes: its provider answers at once, and a request may be repeated."""

    name: str
    provider: str
    account: str
    price: int

    @property
    def lane(self) -> str:
        """The lane of its images."""
        return lane_name(self.account)


class SceneModels(Protocol):
    """The models for scenes, and the checks of their prompts and parameters."""

    def find(self, name: str | None) -> SceneModel:
        """Return the model; without a name the first one.

        Raises UnknownModel, ModelNotForScenes or ProviderNotConfigured.
        """

    def check_parameters(self, name: str, parameters: Mapping[str, Any]) -> dict[str, Any]:
        """Return the parameters with all defaults. Raises an error that names the wrong one."""

    def check_prompt(self, name: str, prompt: str) -> str:
        """Return the prompt as it is kept. Raises InvalidPrompt."""

    def request(self, name: str, prompt: str, parameters: Mapping[str, Any]) -> GenerationRequest | None:
        """Return the request for the provider; None when the model is no longer offered."""


def lane_name(account: str) -> str:
    """Return the name of the lane of scene images for this account with a provider."""
    return f"{account}.scenes"


def scene_lane(account: str, per_minute: int, at_once: int) -> Lane:
    """Return the lane of an account: limited in any minute, and up to 60 calls a minute evenly spaced."""
    if per_minute > SPACED_MOST:
        return Lane(lane_name(account), max_running=at_once, rate=(per_minute, MINUTE + BEGIN_SECONDS))
    return Lane(lane_name(account), max_running=at_once, spacing=MINUTE / per_minute + BEGIN_SECONDS)
