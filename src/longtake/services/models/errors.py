"""Errors of requests for images and videos."""

from longtake.errors import LongtakeError


class GenerationError(LongtakeError):
    """A request for an image or video was refused. Nothing was written and nothing is held."""

    code = "GENERATION_ERROR"
    http_status = 422


class UnknownModel(GenerationError):
    """There is no such model, or it makes another type of media."""

    code = "MODEL_UNKNOWN"


class UnknownParameter(GenerationError):
    """The model has no such parameter."""

    code = "PARAMETER_UNKNOWN"


class InvalidParameter(GenerationError):
    """The model does not accept this value of a parameter."""

    code = "PARAMETER_INVALID"
    default_hint = "GET /v1/models shows each parameter with its limits."


class InvalidPrompt(GenerationError):
    """The prompt is empty, too long or not text."""

    code = "PROMPT_INVALID"


class ProviderNotConfigured(GenerationError):
    """The model's provider has no key on this server, so nothing can be made."""

    code = "PROVIDER_NOT_CONFIGURED"
    http_status = 503
    default_hint = "Set its key: `longtake settings` names the setting, `longtake secrets set` stores one encrypted."
