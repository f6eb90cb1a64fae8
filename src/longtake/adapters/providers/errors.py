"""Errors of media providers."""

from typing import Any

from longtake.errors import LongtakeError


class ProviderError(LongtakeError):
    """A provider of media did not do what Longtake asked."""

    code = "PROVIDER_ERROR"
    http_status = 502

    def __init__(self, message: str, hint: str | None = None, *, provider: str = "", **facts: Any) -> None:
        super().__init__(message, hint, provider=provider, **facts)
        self.provider = provider


class ProviderBusy(ProviderError):
    """The provider accepts no more requests for the moment. It did not accept this one."""

    code = "PROVIDER_BUSY"
    http_status = 503
    default_hint = "Work continues automatically. `longtake lanes set` can lower the rate of the provider's lane."

    def __init__(
        self, message: str, hint: str | None = None, *, retry_after: float | None = None, provider: str = ""
    ) -> None:
        super().__init__(message, hint, provider=provider, retry_after=retry_after)
        #: Seconds the provider asked us to wait; None when it did not say.
        self.retry_after = retry_after


class ProviderQuotaSpent(ProviderError):
    """The provider's daily quota is used up. It did not accept the request."""

    code = "PROVIDER_QUOTA_SPENT"
    http_status = 503
    default_hint = "Work continues automatically when the quota renews. You can raise it in the provider's console."

    def __init__(self, message: str, hint: str | None = None, *, reset: float = 0.0, provider: str = "") -> None:
        super().__init__(message, hint, provider=provider, reset=reset)
        #: Seconds until the quota is renewed.
        self.reset = reset


class ProviderUnavailable(ProviderError):
    """The provider is down or cannot be reached. It accepted nothing, so you can try again."""

    code = "PROVIDER_UNAVAILABLE"
    http_status = 503

    def __init__(
        self, message: str, hint: str | None = None, *, retry_after: float | None = None, provider: str = ""
    ) -> None:
        super().__init__(message, hint, provider=provider, retry_after=retry_after)
        self.retry_after = retry_after


class ProviderTimeout(ProviderUnavailable):
    """The provider did not answer within the time that the job gives it."""

    code = "PROVIDER_TIMEOUT"


class ProviderUnauthorized(ProviderError):
    """The provider does not accept the configured key, or no key is configured."""

    code = "PROVIDER_UNAUTHORIZED"


class ProviderOutOfCredits(ProviderError):
    """The account with the provider has no credits left."""

    code = "PROVIDER_OUT_OF_CREDITS"
    default_hint = "Add credits to the account with the provider, then resume its lane."


class ProviderRefused(ProviderError):
    """The provider rejected the request for good: it is invalid, or its content is not allowed."""

    code = "PROVIDER_REFUSED"
    http_status = 422

    def __init__(self, message: str, hint: str | None = None, *, fail_code: str = "", provider: str = "") -> None:
        super().__init__(message, hint, provider=provider, fail_code=fail_code)
        #: The provider's own word for the reason.
        self.fail_code = fail_code


class ProviderTaskNotFound(ProviderError):
    """The provider does not know the task."""

    code = "TASK_NOT_FOUND"
    http_status = 404


class SubmitUnknown(ProviderError):
    """The provider may have accepted the request, but its answer is missing or cannot be understood."""

    code = "SUBMIT_UNKNOWN"
    default_hint = "Look for the task in the provider's own list before you send it again: it may already be charged."
