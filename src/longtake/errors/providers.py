"""Of what providers of media answer."""

from typing import Any

from longtake.errors.base import LongtakeError


class ProviderError(LongtakeError):
    """A provider of media did not do what it was asked."""

    code = "PROVIDER_ERROR"

    def __init__(self, message: str, hint: str | None = None, *, provider: str = "", **facts: Any) -> None:
        super().__init__(message, hint, provider=provider, **facts)
        self.provider = provider


class ProviderBusy(ProviderError):
    """The provider takes no more requests for the moment. Nothing was accepted."""

    code = "PROVIDER_BUSY"
    default_hint = "Work goes on by itself; a lower rate of the provider's lane avoids it: `longtake lanes set`."

    def __init__(
        self, message: str, hint: str | None = None, *, retry_after: float | None = None, provider: str = ""
    ) -> None:
        super().__init__(message, hint, provider=provider, retry_after=retry_after)
        #: Seconds the provider asked us to wait; None when it did not say.
        self.retry_after = retry_after


class ProviderQuotaSpent(ProviderError):
    """The provider's quota of the day is used up. Nothing was accepted."""

    code = "PROVIDER_QUOTA_SPENT"
    default_hint = "Work goes on by itself when the quota is renewed; the provider's console can raise it."

    def __init__(self, message: str, hint: str | None = None, *, reset: float = 0.0, provider: str = "") -> None:
        super().__init__(message, hint, provider=provider, reset=reset)
        #: Seconds until the quota is renewed.
        self.reset = reset


class ProviderUnavailable(ProviderError):
    """The provider is down or cannot be reached. Nothing was accepted; trying again is right."""

    code = "PROVIDER_UNAVAILABLE"

    def __init__(
        self, message: str, hint: str | None = None, *, retry_after: float | None = None, provider: str = ""
    ) -> None:
        super().__init__(message, hint, provider=provider, retry_after=retry_after)
        self.retry_after = retry_after


class ProviderUnauthorized(ProviderError):
    """The provider does not accept our key, or there is none."""

    code = "PROVIDER_UNAUTHORIZED"


class ProviderOutOfCredits(ProviderError):
    """Our account with the provider has no credits left."""

    code = "PROVIDER_OUT_OF_CREDITS"
    default_hint = "Add credits to the account with the provider, then resume its lane."


class ProviderRefused(ProviderError):
    """The provider will not do this, now or later: the request is invalid, or its content is not allowed."""

    code = "PROVIDER_REFUSED"

    def __init__(self, message: str, hint: str | None = None, *, fail_code: str = "", provider: str = "") -> None:
        super().__init__(message, hint, provider=provider, fail_code=fail_code)
        #: The provider's own word for the reason.
        self.fail_code = fail_code


class ProviderTaskNotFound(ProviderError):
    """The provider does not know the task."""

    code = "TASK_NOT_FOUND"


class SubmitUnknown(ProviderError):
    """The provider may have accepted the request: there was no answer that can be understood."""

    code = "SUBMIT_UNKNOWN"
    default_hint = "Look for the task in the provider's own list before it is asked again: it may be paid for already."
