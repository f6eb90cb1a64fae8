"""HTTP calls to a provider, and the errors for those that fail.

The errors say whether a request was accepted, was not accepted, or may have been. What follows for a job is decided in
`services/provider_calls.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import orjson

from longtake.adapters.net.errors import AddressRefused, NetError
from longtake.adapters.net.responses import retry_after_seconds
from longtake.adapters.providers.errors import (
    ProviderBusy,
    ProviderError,
    ProviderRefused,
    ProviderTaskNotFound,
    ProviderUnauthorized,
    ProviderUnavailable,
    SubmitUnknown,
)
from longtake.redaction import MASK, redact_text

if TYPE_CHECKING:
    from longtake.adapters.net import HttpClient, Response
    from longtake.clock import Clock

LONGEST_TEXT = 500
LONGEST_WORD = 60
SHORTEST_SECRET = 8

QUERY_SECONDS = 10.0
SUBMIT_SECONDS = 30.0
ANSWER_BYTES = 2_000_000
_NOT_SENT_ON = 503


class ProviderCalls:
    """Calls to one provider. Its key goes into a header of these requests and nowhere else."""

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
        #: Limits of a submit. A provider that answers with the media itself needs higher ones.
        self.submit_seconds = SUBMIT_SECONDS
        self.submit_bytes = ANSWER_BYTES
        self._client = client
        self._key = key
        self._key_setting = key_setting
        self._key_header = key_header

    @property
    def configured(self) -> bool:
        """Return whether there is a key."""
        return bool(self._key().strip())

    def key_headers(self) -> dict[str, str]:
        """Return the authentication header; raise ProviderUnauthorized without a usable key."""
        key = self._key().strip()
        hint = f"Set LONGTAKE_{self._key_setting.upper()}, or store it with `longtake secrets set {self._key_setting}`."
        if not key:
            raise ProviderUnauthorized(f"No key is configured for {self.provider}.", hint, provider=self.provider)
        if not key.isascii() or not key.isprintable() or " " in key:
            message = f"The key for {self.provider} contains spaces, control characters or non-ASCII characters."
            raise ProviderUnauthorized(message, hint, provider=self.provider)
        return self._key_header(key)

    def words(self, text: object) -> str:
        """Return a text of the provider, made safe to show."""
        return plain_words(text, self._key().strip())

    def code(self, value: object, otherwise: str) -> str:
        """Return a word of the provider, such as a state or a reason, made safe and short enough for a column."""
        return plain_words(value, self._key().strip(), longest=LONGEST_WORD) or otherwise

    async def submit(self, path: str, content: Any) -> Response:
        """POST a request that may cost money. Raises SubmitUnknown if it may have arrived without an answer."""
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

    async def query(self, path: str, params: Mapping[str, str] | None = None) -> Response:
        """GET something. A failed query can be repeated."""
        headers = self.key_headers()
        try:
            return await self._client.request(
                "GET", self.base_url + path, headers=headers, params=params, seconds=QUERY_SECONDS,
                most_bytes=ANSWER_BYTES,
            )  # fmt: skip
        except NetError as error:
            raise self._unreachable(error) from None

    def content(self, answer: Response) -> dict[str, Any] | None:
        """Return the answer's JSON object; None if the body is anything else."""
        try:
            content = orjson.loads(answer.body)
        except orjson.JSONDecodeError:
            return None
        return content if isinstance(content, dict) else None

    def retry_after(self, answer: Response) -> float | None:
        """Return the seconds that the provider asks us to wait."""
        return retry_after_seconds(answer.headers.get("Retry-After"), self.clock.now())

    def unknown(self, reason: str) -> SubmitUnknown:
        """Return the error for a submit that may or may not have been accepted."""
        return SubmitUnknown(f"{self.provider} may have accepted the request: {reason}", provider=self.provider)

    def refused(self, fail_code: str, reason: object) -> ProviderRefused:
        """Return the error for a request that the provider will never accept; `reason` is its own text."""
        said = self.words(reason) or f"Its reason is {fail_code}."
        return ProviderRefused(
            f"{self.provider} rejected the request: {said}", fail_code=fail_code, provider=self.provider
        )

    def unauthorized(self, reason: object) -> ProviderUnauthorized:
        """Return the error for a rejected key."""
        hint = f"Check the key in LONGTAKE_{self._key_setting.upper()} or the stored one, then resume the lanes."
        said = self.words(reason)
        message = f"{self.provider} rejected our key. {said}".strip()
        return ProviderUnauthorized(message, hint, provider=self.provider)

    def busy(self, reason: object, retry_after: float | None) -> ProviderBusy:
        """Return the error for too many requests."""
        message = f"{self.provider} accepts no more requests for now. {self.words(reason)}".strip()
        return ProviderBusy(message, retry_after=retry_after, provider=self.provider)

    def unavailable(self, reason: object, retry_after: float | None = None) -> ProviderUnavailable:
        """Return the error for a provider that is down."""
        message = f"{self.provider} is unavailable. {self.words(reason)}".strip()
        return ProviderUnavailable(message, retry_after=retry_after, provider=self.provider)

    def task_not_found(self) -> ProviderTaskNotFound:
        """Return the error for a task that the provider does not have."""
        return ProviderTaskNotFound(f"{self.provider} does not know this task.", provider=self.provider)

    def unrecognized(self, answer: Response, *, submitting: bool) -> ProviderError:
        """Return the error for an answer that is not in the provider's format and may come from a gateway.

        A gateway that answers 5xx may have passed the request on, except for a 503 with Retry-After. A gateway that
        answers a query with 404 did not find the provider, which says nothing about the task.
        """
        status, said = answer.status, f"It answered {answer.status} in an unknown format."
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
                return self.unavailable(f"Its address redirects ({status}). Check the base URL in the settings.")
            case _ if 400 <= status < 500:  # noqa: PLR2004 - the range of refusals
                return self.refused(str(status), said)
        return self.unknown(f"it answered {status} in an unknown format.")

    def _unreachable(self, error: NetError) -> ProviderUnavailable:
        hint = error.hint if isinstance(error, AddressRefused) else None
        message = f"{self.provider} cannot be reached: {error.message}"
        return ProviderUnavailable(message, hint, provider=self.provider)


def plain_words(text: object, *secrets: str, longest: int = LONGEST_TEXT) -> str:
    """Return a provider's text as users may see it: one line, printable, short, and without our keys."""
    if not isinstance(text, (str, int, float)):
        return ""
    words = " ".join("".join(letter if letter.isprintable() else " " for letter in str(text)[:20_000]).split())
    # A shorter key is no secret, and masking it would garble ordinary words.
    for secret in (one for one in secrets if len(one) >= SHORTEST_SECRET):
        for form in (secret, quote(secret, safe="")):
            words = words.replace(form, MASK)
    words = redact_text(words)
    return words if len(words) <= longest else words[: longest - 1] + "…"
