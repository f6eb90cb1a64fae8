"""Of requests for images and videos."""

from longtake.errors.base import LongtakeError


class GenerationError(LongtakeError):
    """A request for an image or video was refused. Nothing was written and nothing is held."""

    code = "GENERATION_ERROR"


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


class InvalidReferences(GenerationError):
    """There are too few or too many reference images, or one of them does not exist."""

    code = "REFERENCES_INVALID"


class ProviderNotConfigured(GenerationError):
    """The model's provider has no key on this server, so nothing can be made."""

    code = "PROVIDER_NOT_CONFIGURED"
    default_hint = "Set its key: `longtake settings` names the setting, `longtake secrets set` stores one encrypted."


class PublicAddressMissing(GenerationError):
    """The provider fetches files itself, but this server has no address that it can reach."""

    code = "PUBLIC_URL_MISSING"
    default_hint = "Set LONGTAKE_PUBLIC_URL, or keep objects in S3; or use a model that takes images directly."


class TooManyTasks(GenerationError):
    """The user already has the maximum number of unfinished tasks."""

    code = "TASKS_TOO_MANY"
    default_hint = "GET /v1/tasks/pending lists them; cancel some or wait."


class InvalidPreference(GenerationError):
    """The Prefer header asks for something that is not possible."""

    code = "PREFERENCE_INVALID"


class InvalidIdempotencyKey(GenerationError):
    """The Idempotency-Key is not 1 to 255 visible ASCII characters."""

    code = "IDEMPOTENCY_KEY_INVALID"


class IdempotencyKeyReused(GenerationError):
    """The same Idempotency-Key was used for a different request."""

    code = "IDEMPOTENCY_KEY_REUSED"
    default_hint = "Use a new key for each new request. Repeat a key only with the same request."


class IdempotencyKeyInUse(GenerationError):
    """The first request with this Idempotency-Key has not finished."""

    code = "IDEMPOTENCY_KEY_IN_USE"
    default_hint = "Repeat the request in a second to get the first answer."
