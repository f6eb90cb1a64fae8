"""Of runs of scene images, and of processing the queue by request."""

from longtake.errors.base import LongtakeError
from longtake.errors.generation import GenerationError


class InvalidSceneCount(GenerationError):
    """The number of scenes is not one that a run can have."""

    code = "SCENE_COUNT_INVALID"


class ModelNotForScenes(GenerationError):
    """The model makes images, but its provider does not answer at once and accept a repeated request."""

    code = "MODEL_NOT_FOR_SCENES"


class InternalSecretRefused(LongtakeError):
    """The X-Internal-Secret header is missing, or does not match this server's secret."""

    code = "INTERNAL_SECRET_REFUSED"
    default_hint = "Send the value of the server's LONGTAKE_INTERNAL_SECRET."


class TooManyProcessings(LongtakeError):
    """This server is already processing the queue for the maximum number of requests."""

    code = "PROCESSINGS_TOO_MANY"
    default_hint = "The running requests do the same work. Send yours again when one of them has answered."
