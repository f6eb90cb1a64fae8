"""Of requests for images and videos."""

from longtake.errors.base import LongtakeError


class GenerationError(LongtakeError):
    """A request for an image or video was refused. Nothing was written and nothing is held."""

    code = "GENERATION_ERROR"


class UnknownModel(GenerationError):
    """There is no such model, or it makes something else."""

    code = "MODEL_UNKNOWN"


class UnknownParameter(GenerationError):
    """The model has no such parameter."""

    code = "PARAMETER_UNKNOWN"


class InvalidParameter(GenerationError):
    """A parameter's value is not one the model takes."""

    code = "PARAMETER_INVALID"
    default_hint = "GET /v1/models shows each parameter with its limits."


class InvalidPrompt(GenerationError):
    """The prompt is empty, too long or not text."""

    code = "PROMPT_INVALID"


class InvalidReferences(GenerationError):
    """Too few or too many reference images, or one that is not there."""

    code = "REFERENCES_INVALID"


class ProviderNotConfigured(GenerationError):
    """The model's provider has no key here, so nothing could be made."""

    code = "PROVIDER_NOT_CONFIGURED"
    default_hint = "Set its key: `longtake settings` names the setting, `longtake secrets set` keeps one sealed."


class PublicAddressMissing(GenerationError):
    """The provider fetches files itself, and this server has no address where it could."""

    code = "PUBLIC_URL_MISSING"
    default_hint = "Set LONGTAKE_PUBLIC_URL, or keep objects in S3; or use a model that takes images directly."


class TooManyTasks(GenerationError):
    """As many tasks are under way as one user may have."""

    code = "TASKS_TOO_MANY"
    default_hint = "GET /v1/tasks/pending lists them; cancel some or wait."


class InvalidPreference(GenerationError):
    """A Prefer header asks for what cannot be done."""

    code = "PREFERENCE_INVALID"


class InvalidIdempotencyKey(GenerationError):
    """An Idempotency-Key that cannot be kept."""

    code = "IDEMPOTENCY_KEY_INVALID"


class IdempotencyKeyReused(GenerationError):
    """The same Idempotency-Key came with another request."""

    code = "IDEMPOTENCY_KEY_REUSED"
    default_hint = "Use a new key for a new request; the same key only to repeat the very same one."


class IdempotencyKeyInUse(GenerationError):
    """The first request with this Idempotency-Key is not finished."""

    code = "IDEMPOTENCY_KEY_IN_USE"
    default_hint = "Repeat it in a second: then you get the first answer."
