"""KIE's envelope: `{code, msg, data}`, with the code that counts inside an HTTP 200."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from longtake.adapters.providers.provider import MediaUrl
from longtake.errors import ProviderError, ProviderOutOfCredits

if TYPE_CHECKING:
    from longtake.adapters.net import Answer
    from longtake.adapters.providers.calls import ProviderCalls

OK = 200
GENERATION_FAILED = 501
LONGEST_TASK_ID = 200


@dataclass(frozen=True, slots=True)
class Envelope:
    """An answer in KIE's own shape, good or bad: whatever it says, it is KIE that says it."""

    code: int
    message: object
    data: Any
    retry_after: float | None


def read_envelope(calls: ProviderCalls, answer: Answer, *, submitting: bool) -> Envelope:
    """Return the answer's envelope; raise when it is not in KIE's shape."""
    content = calls.content(answer)
    code = _code(content)
    if content is None or code is None:
        raise calls.shapeless(answer, submitting=submitting)
    message = content.get("msg") or content.get("message")
    return Envelope(code, message, content.get("data"), calls.retry_after(answer))


def error_of(calls: ProviderCalls, envelope: Envelope, *, submitting: bool) -> ProviderError:
    """Return the error for one of KIE's codes. Nothing was accepted."""
    code, message = envelope.code, envelope.message
    match code:
        case 401 | 403:
            return calls.unauthorized(message)
        case 402:
            sentence = f"The account with {calls.provider} has no credits left."
            return ProviderOutOfCredits(sentence, provider=calls.provider)
        # A query has nothing in it but the task's id.
        case 404 | 422 if not submitting:
            return calls.task_not_found()
        case 429 | 433:
            return calls.busy(message, envelope.retry_after)
        case 408 | 455:
            return calls.unavailable(message, envelope.retry_after)
        case 501 | 505:
            return calls.refused(str(code), message)
        case _ if 400 <= code < 500:  # noqa: PLR2004 - the range of refusals
            return calls.refused(str(code), message)
    return calls.unavailable(message, envelope.retry_after)


def task_id_of(data: Any) -> str | None:
    """Return the task's id, under either of the names it has."""
    found = (data.get("taskId") or data.get("task_id")) if isinstance(data, dict) else None
    return found if isinstance(found, str) and found.isprintable() and 0 < len(found) <= LONGEST_TASK_ID else None


def media_urls(found: Any) -> tuple[MediaUrl, ...] | None:
    """Return the addresses of results; None when it is not a list of addresses."""
    if not isinstance(found, list) or not all(_is_address(one) for one in found):
        return None
    return tuple(MediaUrl(one) for one in found)


def _is_address(value: object) -> bool:
    return isinstance(value, str) and value.startswith(("https://", "http://"))


def _code(content: dict[str, Any] | None) -> int | None:
    code = (content or {}).get("code")
    if isinstance(code, str) and code.isascii() and code.isdigit():
        return int(code)
    return code if isinstance(code, int) and not isinstance(code, bool) else None
