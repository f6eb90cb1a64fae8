"""Gemini's account, which both of its APIs share: key, limits and errors."""

from __future__ import annotations

import base64
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from longtake.adapters.net.retry_after import duration_seconds, seconds_to_pacific_midnight
from longtake.adapters.providers.calls import ProviderCalls
from longtake.adapters.providers.provider import GenerationRequest, Provider
from longtake.clock import Clock, SystemClock
from longtake.engine.lanes import Lane
from longtake.errors import ProviderError, ProviderQuotaSpent

if TYPE_CHECKING:
    from longtake.adapters.net import HttpClient, Response

OK = 200
KEY_SETTING = "gemini_api_key"
_BAD_KEY = "API_KEY_INVALID"
_LATE = "DEADLINE_EXCEEDED"


class GeminiAccount(Provider):
    """Base of Gemini's providers: reads answers and errors. A subclass builds requests and reads results."""

    account = "gemini"
    takes_references = "bytes"
    # Gemini's limits depend on the account and are not published. Start low; `longtake lanes set` changes them.
    submit_lane = Lane("gemini.submit", rate=(60, 60.0), burst=10)
    query_lane = Lane("gemini.query", rate=(50, 1.0))

    def __init__(self, client: HttpClient, base_url: str, key: Callable[[], str], clock: Clock | None = None) -> None:
        self._calls = ProviderCalls(
            client, self.name, base_url, key, key_setting=KEY_SETTING, key_header=_header, clock=clock or SystemClock()
        )

    @property
    def configured(self) -> bool:
        return self._calls.configured

    def _read(self, answer: Response, *, submitting: bool) -> dict[str, Any]:
        """Return the content of a successful answer; raise a ProviderError for any other."""
        content = self._calls.content(answer)
        error = content.get("error") if content is not None else None
        if answer.status != OK and isinstance(error, dict):
            raise _error(self._calls, answer, error, submitting=submitting)
        if answer.status != OK or content is None:
            raise self._calls.unrecognized(answer, submitting=submitting)
        return content

    def _images(self, request: GenerationRequest) -> list[tuple[str, str]]:
        """Return the references as pairs of content type and base64 text."""
        found = [(one.content_type, base64.b64encode(one.body).decode()) for one in request.references if one.body]
        if len(found) != len(request.references):
            raise self._calls.refused("REFERENCE_MISSING", "A reference image has no content.")
        return found


def dicts(value: object) -> list[dict[str, Any]]:
    """Return the objects in a JSON list; an empty list for anything else."""
    return [one for one in value if isinstance(one, dict)] if isinstance(value, list) else []


def _header(key: str) -> dict[str, str]:
    return {"x-goog-api-key": key}


def _error(calls: ProviderCalls, answer: Response, error: dict[str, Any], *, submitting: bool) -> ProviderError:
    """Return our error for one of Gemini's. Nothing was accepted, unless it timed out while it worked."""
    status, message, details = answer.status, error.get("message"), dicts(error.get("details"))
    word = calls.code(error.get("status"), str(status))
    match status:
        case 401 | 403:
            return calls.unauthorized(message)
        case _ if any(one.get("reason") == _BAD_KEY for one in details):
            return calls.unauthorized(message)
        case 429:
            return _too_many(calls, answer, message, details)
        case 404 if not submitting:
            return calls.task_not_found()
        case _ if word == _LATE and submitting:
            return calls.unknown("it timed out while it worked on the request.")
        case _ if 400 <= status < 500:  # noqa: PLR2004 - the range of refusals
            return calls.refused(word, message)
    return calls.unavailable(message, _delay(calls, answer, details))


def _too_many(calls: ProviderCalls, answer: Response, message: object, details: list[dict[str, Any]]) -> ProviderError:
    violations = [one for detail in details for one in dicts(detail.get("violations"))]
    if any("PerDay" in str(one.get("quotaId", "")) for one in violations):
        return ProviderQuotaSpent(
            f"{calls.provider} has used up its daily quota. {calls.words(message)}".strip(),
            reset=seconds_to_pacific_midnight(calls.clock.now()),
            provider=calls.provider,
        )
    return calls.busy(message, _delay(calls, answer, details))


def _delay(calls: ProviderCalls, answer: Response, details: list[dict[str, Any]]) -> float | None:
    """Return how long to wait, from the details, or from a gateway's Retry-After header."""
    told = (duration_seconds(one.get("retryDelay")) for one in details)
    return next((delay for delay in told if delay is not None), calls.retry_after(answer))
