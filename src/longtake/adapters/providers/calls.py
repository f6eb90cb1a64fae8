"""The calls all adapters make, and what their going wrong means: was it accepted, was it not, or does nobody know."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import orjson

from longtake.adapters.net.retry_after import header_seconds
from longtake.adapters.providers.provider_text import LONGEST_WORD, plain_words
from longtake.errors import (
    AddressRefused,
    NetError,
    ProviderBusy,
    ProviderError,
    ProviderRefused,
    ProviderTaskNotFound,
    ProviderUnauthorized,
    ProviderUnavailable,
    SubmitUnknown,
)

if TYPE_CHECKING:
    from longtake.adapters.net import Answer, HttpClient
    from longtake.clock import Clock

QUERY_SECONDS = 10.0
SUBMIT_SECONDS = 30.0
ANSWER_BYTES = 2_000_000
_NOT_SENT_ON = 503


class ProviderCalls:
    """One provider's address and key. The key goes into a header of its own requests and nowhere else."""

    def __init__(
        self,
        client: HttpClient,
        provider: str,
        base_url: str,
        key: Callable[[], str],
        *,
        key_setting: str,
        key_header: Callable[[str], dict[str, str]],
        clock: Clock,
    ) -> None:
        self.provider = provider
        self.base_url = base_url.rstrip("/")
        self.clock = clock
        #: A provider that answers with the media itself takes longer, and answers more.
        self.submit_seconds = SUBMIT_SECONDS
        self.submit_bytes = ANSWER_BYTES
        self._client = client
        self._key = key
        self._key_setting = key_setting
        self._key_header = key_header

    @property
    def configured(self) -> bool:
        """Say whether there is a key."""
        return bool(self._key().strip())

    def key_headers(self) -> dict[str, str]:
        """Return the header that proves who we are, or raise ProviderUnauthorized when there is no usable key."""
        key = self._key().strip()
        hint = f"Set LONGTAKE_{self._key_setting.upper()}, or store it with `longtake secrets set {self._key_setting}`."
        if not key:
            raise ProviderUnauthorized(f"There is no key for {self.provider}.", hint, provider=self.provider)
        if not key.isascii() or not key.isprintable() or " " in key:
            message = f"The key for {self.provider} has characters that no key has."
            raise ProviderUnauthorized(message, hint, provider=self.provider)
        return self._key_header(key)

    def words(self, text: object) -> str:
        """Return a text of the provider as it may be shown."""
        return plain_words(text, self._key().strip())

    def code(self, value: object, otherwise: str) -> str:
        """Return a word of the provider, such as a state or a reason, short enough for a column."""
        return plain_words(value, self._key().strip(), longest=LONGEST_WORD) or otherwise

    async def submit(self, path: str, content: Any) -> Answer:
        """Send a request that may be paid for. SubmitUnknown when it may have arrived and there is no answer."""
        headers = self.key_headers()
        try:
            return await self._client.request(
                "POST", self.base_url + path, headers=headers, json=content, seconds=self.submit_seconds,
                most_bytes=self.submit_bytes,
            )  # fmt: skip
        except NetError as error:
            if error.sent:
                raise self.unknown(error.message) from None
            raise self._unreachable(error) from None

    async def query(self, path: str, params: Mapping[str, str] | None = None) -> Answer:
        """Send a request that changes nothing; when it fails, asking again is right."""
        headers = self.key_headers()
        try:
            return await self._client.request(
                "GET", self.base_url + path, headers=headers, params=params, seconds=QUERY_SECONDS,
                most_bytes=ANSWER_BYTES,
            )  # fmt: skip
        except NetError as error:
            raise self._unreachable(error) from None

    def content(self, answer: Answer) -> dict[str, Any] | None:
        """Return the answer's JSON object, or None if it is not one."""
        try:
            content = orjson.loads(answer.body)
        except orjson.JSONDecodeError:
            return None
        return content if isinstance(content, dict) else None

    def retry_after(self, answer: Answer) -> float | None:
        """Return how long the provider asks us to wait."""
        return header_seconds(answer.headers.get("Retry-After"), self.clock.now())

    def unknown(self, reason: str) -> SubmitUnknown:
        """Return the error for a submit of which nobody knows whether it was accepted."""
        return SubmitUnknown(f"{self.provider} may have accepted the request: {reason}", provider=self.provider)

    def refused(self, fail_code: str, reason: object) -> ProviderRefused:
        """Return the error for what the provider will never do; `reason` is its own text."""
        said = self.words(reason) or f"It gives {fail_code} as its reason."
        return ProviderRefused(f"{self.provider} refuses this: {said}", fail_code=fail_code, provider=self.provider)

    def unauthorized(self, reason: object) -> ProviderUnauthorized:
        """Return the error for a key that is not accepted."""
        hint = f"Check the key in LONGTAKE_{self._key_setting.upper()} or the stored one, then resume the lanes."
        said = self.words(reason)
        message = f"{self.provider} does not accept our key. {said}".strip()
        return ProviderUnauthorized(message, hint, provider=self.provider)

    def busy(self, reason: object, retry_after: float | None) -> ProviderBusy:
        """Return the error for too many requests."""
        message = f"{self.provider} takes no more requests for now. {self.words(reason)}".strip()
        return ProviderBusy(message, retry_after=retry_after, provider=self.provider)

    def unavailable(self, reason: object, retry_after: float | None = None) -> ProviderUnavailable:
        """Return the error for a provider that is down."""
        message = f"{self.provider} cannot do this now. {self.words(reason)}".strip()
        return ProviderUnavailable(message, retry_after=retry_after, provider=self.provider)

    def task_not_found(self) -> ProviderTaskNotFound:
        """Return the error for a task that the provider does not know."""
        return ProviderTaskNotFound(f"{self.provider} does not know this task.", provider=self.provider)

    def shapeless(self, answer: Answer, *, submitting: bool) -> ProviderError:
        """Return the error for an answer that is not in the provider's own shape: who wrote it, nobody knows.

        A gateway that answers 5xx may have passed the request on before; 503 with Retry-After is one that did not. One
        that answers a query with 404 does not find the provider, and says nothing about the task.
        """
        status, said = answer.status, f"It answered {answer.status}, not in its own form."
        retry_after = self.retry_after(answer)
        match status:
            case 401 | 403:
                return self.unauthorized(said)
            case 408:
                return self.unavailable(said)
            case 429:
                return self.busy(said, retry_after)
            case _ if not submitting:
                return self.unavailable(said, retry_after)
            case _ if status == _NOT_SENT_ON and retry_after is not None:
                return self.unavailable(said, retry_after)
            case _ if 300 <= status < 400:  # noqa: PLR2004 - the range of redirects
                return self.unavailable(f"Its address leads elsewhere ({status}); check the base URL in the settings.")
            case _ if 400 <= status < 500:  # noqa: PLR2004 - the range of refusals
                return self.refused(str(status), said)
        return self.unknown(f"it answered {status} with what cannot be understood.")

    def _unreachable(self, error: NetError) -> ProviderUnavailable:
        hint = error.hint if isinstance(error, AddressRefused) else None
        message = f"{self.provider} cannot be reached: {error.message}"
        return ProviderUnavailable(message, hint, provider=self.provider)
