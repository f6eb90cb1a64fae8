"""The models that scenes may use, and the lanes of their images."""

from __future__ import annotations

from collections.abc import Mapping

from longtake.adapters.providers.provider import Provider
from longtake.capabilities.scenes.errors import ModelNotForScenes
from longtake.engine.lanes import Lane
from longtake.services.models import Model, OfferedModels
from longtake.services.models.errors import UnknownModel

MINUTE = 60.0
#: Above this rate a minute's calls are counted and no longer spaced: spacing would cost a good part of the rate.
SPACED_MOST = 60
#: How much longer one call may be on its way to the provider than the next: the lane's limits are longer by as much,
#: so that calls do not arrive closer together than allowed.
ON_THE_WAY_SECONDS = 0.15


class SceneModels:
    """The image models whose provider answers at once and accepts a repeated request, in the order of the offer."""

    def __init__(self, offer: OfferedModels, providers: Mapping[str, Provider]) -> None:
        self._offer = offer
        self._providers = providers

    def find(self, name: str | None) -> Model:
        """Return the model, without a name the first; raises what is wrong with a name that does not fit."""
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
        return self._offer.find(name, "image")

    def lane_of(self, model: Model) -> str:
        return lane_name(self._providers[model.provider].account)

    def lanes(self, per_minute: int, at_once: int) -> dict[str, Lane]:
        """Return the lanes of scene images by provider; providers of one account share a lane."""
        names = sorted({one.provider for one in self._offer.models.values() if self._fits(one)})
        return {name: scene_lane(self._providers[name].account, per_minute, at_once) for name in names}

    def _fits(self, model: Model) -> bool:
        provider = self._providers[model.provider]
        least, _most = model.references
        return (
            model.type == "image" and not least and provider.submits == "repeatable" and provider.answers == "at once"
        )


def lane_name(account: str) -> str:
    """Return the name of the lane of scene images for this account with a provider."""
    return f"{account}.scenes"


def scene_lane(account: str, per_minute: int, at_once: int) -> Lane:
    """Return the lane of an account: limited in any minute, and up to 60 calls a minute evenly spaced."""
    if per_minute > SPACED_MOST:
        return Lane(lane_name(account), max_running=at_once, rate=(per_minute, MINUTE + ON_THE_WAY_SECONDS))
    return Lane(lane_name(account), max_running=at_once, spacing=MINUTE / per_minute + ON_THE_WAY_SECONDS)
