"""What Gemini's APIs share: the account with its key and its limits, and errors with their details."""

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
    from longtake.adapters.net import Answer, HttpClient

OK = 200
KEY_SETTING = "gemini_api_key"
_BAD_KEY = "API_KEY_INVALID"
_LATE = "DEADLINE_EXCEEDED"


class GeminiAccount(Provider):
    """Reads Gemini's answers; an API adds its request and what a good answer means."""

    account = "gemini"
    takes_references = "bytes"
    # Its limits depend on the account and are not told beforehand: a modest start, for `longtake lanes set` to change.
    submit_lane = Lane("gemini.submit", rate=(60, 60.0), burst=10)
    query_lane = Lane("gemini.query", rate=(50, 1.0))

    def __init__(self, client: HttpClient, base_url: str, key: Callable[[], str], clock: Clock | None = None) -> None:
        self._calls = ProviderCalls(
            client, self.name, base_url, key, key_setting=KEY_SETTING, key_header=_header, clock=clock or SystemClock()
        )

    @property
    def configured(self) -> bool:
        return self._calls.configured

    def _read(self, answer: Answer, *, submitting: bool) -> dict[str, Any]:
        """Return what a good answer holds; raise for every other."""
        content = self._calls.content(answer)
        error = content.get("error") if content is not None else None
        if answer.status != OK and isinstance(error, dict):
            raise _error(self._calls, answer, error, submitting=submitting)
        if answer.status != OK or content is None:
            raise self._calls.shapeless(answer, submitting=submitting)
        return content

    def _images(self, request: GenerationRequest) -> list[tuple[str, str]]:
        """Return the references as type and base64 text."""
        found = [(one.content_type, base64.b64encode(one.body).decode()) for one in request.references if one.body]
        if len(found) != len(request.references):
            raise self._calls.refused("REFERENCE_MISSING", "A reference has no bytes that could be sent.")
        return found


def dicts(value: object) -> list[dict[str, Any]]:
    """Return the objects of a JSON list; nothing of anything else."""
    return [one for one in value if isinstance(one, dict)] if isinstance(value, list) else []


def _header(key: str) -> dict[str, str]:
    return {"x-goog-api-key": key}


def _error(calls: ProviderCalls, answer: Answer, error: dict[str, Any], *, submitting: bool) -> ProviderError:
    """Return the error for one of Gemini's own. Nothing was accepted, unless its time ran out at work."""
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
            return calls.unknown("it ran out of time while it worked on it.")
        case _ if 400 <= status < 500:  # noqa: PLR2004 - the range of refusals
            return calls.refused(word, message)
    return calls.unavailable(message, _delay(calls, answer, details))


def _too_many(calls: ProviderCalls, answer: Answer, message: object, details: list[dict[str, Any]]) -> ProviderError:
    violations = [one for detail in details for one in dicts(detail.get("violations"))]
    if any("PerDay" in str(one.get("quotaId", "")) for one in violations):
        return ProviderQuotaSpent(
            f"{calls.provider} has used up its quota of the day. {calls.words(message)}".strip(),
            reset=seconds_to_pacific_midnight(calls.clock.now()),
            provider=calls.provider,
        )
    return calls.busy(message, _delay(calls, answer, details))


def _delay(calls: ProviderCalls, answer: Answer, details: list[dict[str, Any]]) -> float | None:
    """Return how long to wait: it stands in the details, and in the header only if a gateway wrote one."""
    told = (duration_seconds(one.get("retryDelay")) for one in details)
    return next((delay for delay in told if delay is not None), calls.retry_after(answer))
