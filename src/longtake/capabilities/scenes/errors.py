"""Errors of runs."""

from longtake.services.models.errors import GenerationError


class InvalidSceneCount(GenerationError):
    """The number of scenes is not one that a run can have."""

    code = "SCENE_COUNT_INVALID"


class ModelNotForScenes(GenerationError):
    """The model makes images, but its provider does not answer at once and accept a repeated request."""

    code = "MODEL_NOT_FOR_SCENES"
