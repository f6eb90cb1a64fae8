"""Of runs of scene images, and of processing the queue by request."""

from longtake.errors.base import LongtakeError
from longtake.errors.generation import GenerationError


class InvalidSceneCount(GenerationError):
    """A run has another number of scenes than those there are."""

    code = "SCENE_COUNT_INVALID"


class ModelNotForScenes(GenerationError):
    """The model makes images, but not in one answer that may be asked for again."""

    code = "MODEL_NOT_FOR_SCENES"


class InternalSecretRefused(LongtakeError):
    """X-Internal-Secret is missing, or is not the secret of this server."""

    code = "INTERNAL_SECRET_REFUSED"
    default_hint = "Send what LONGTAKE_INTERNAL_SECRET is at the server."


class TooManyProcessings(LongtakeError):
    """As many requests process the queue in this server as may at once."""

    code = "PROCESSINGS_TOO_MANY"
    default_hint = "Those under way do the same work; ask again when one of them has answered."
