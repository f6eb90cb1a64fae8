"""Errors of requests for tasks."""

from longtake.services.models.errors import GenerationError


class InvalidReferences(GenerationError):
    """There are too few or too many reference images, or one of them does not exist."""

    code = "REFERENCES_INVALID"


class PublicAddressMissing(GenerationError):
    """The provider fetches files itself, but this server has no address that it can reach."""

    code = "PUBLIC_URL_MISSING"
    http_status = 503
    default_hint = "Set LONGTAKE_PUBLIC_URL, or keep objects in S3; or use a model that takes images directly."


class InvalidPreference(GenerationError):
    """The Prefer header asks for something that is not possible."""

    code = "PREFERENCE_INVALID"
