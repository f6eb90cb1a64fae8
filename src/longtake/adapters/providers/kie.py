"""KIE's two APIs: jobs, for all models but Veo, and Veo, with a flat request body and a flag instead of a state.

Both answer with an envelope `{code, msg, data}`; the code that counts is inside an HTTP 200.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
from abc import abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any, ClassVar

import orjson

from longtake.adapters.providers.calls import ProviderCalls
from longtake.adapters.providers.errors import ProviderError, ProviderOutOfCredits
from longtake.adapters.providers.provider import (
    Accepted,
    Failed,
    GenerationRequest,
    MediaUrl,
    Provider,
    Running,
    Strange,
    Succeeded,
)
from longtake.clock import Clock, SystemClock
from longtake.engine.lanes import Lane

if TYPE_CHECKING:
    from longtake.adapters.net import HttpClient, Response

KEY_SETTING = "kie_api_key"
WEBHOOK_KEY_SETTING = "kie_webhook_key"
#: KIE's documents say 24 hours and 14 days. A query returns fresh URLs, so a short time costs nothing.
URL_SECONDS = 600.0
OK = 200
GENERATION_FAILED = 501
LONGEST_TASK_ID = 200
TOLERANCE_SECONDS = 300
_MILLISECONDS_FROM = 10**11
_LONGEST_TIMESTAMP = 20
RUNNING_WORDS = frozenset(("waiting", "queuing", "generating"))
#: One or two images are the first and the last frame; three or more show subjects.
FRAMES_MOST = 2
_FRAMES = "FIRST_AND_LAST_FRAMES_2_VIDEO"
_REFERENCES = "REFERENCE_2_VIDEO"
#: The body is flat, so parameters must not replace these fields.
_RESERVED = frozenset(("model", "prompt", "callBackUrl"))


class KieAccount(Provider):
    """Base of KIE's providers: submits, queries and callbacks. A subclass adds paths, requests and states."""

    account = "kie"
    submits = "once"
    takes_references = "url"
    # Both APIs count against the account's limits. A larger burst would cost more of the lasting rate.
    submit_lane = Lane("kie.submit", rate=(20, 10.0), burst=2)
    query_lane = Lane("kie.query", rate=(10, 1.0))
    running_limit = 100
    create_path: ClassVar[str]
    query_path: ClassVar[str]
    #: Where references go, unless a model says otherwise.
    reference_field: ClassVar[str]

    def __init__(
        self,
        client: HttpClient,
        base_url: str,
        key: Callable[[], str],
        webhook_key: Callable[[], str] = str,
        clock: Clock | None = None,
    ) -> None:
        self._webhook_key = webhook_key
        self._calls = ProviderCalls(
            client, self.name, base_url, key, key_setting=KEY_SETTING, key_header=_bearer, clock=clock or SystemClock()
        )

    @property
    def configured(self) -> bool:
        return self._calls.configured

    async def submit(self, request: GenerationRequest) -> Accepted:
        answer = await self._calls.submit(self.create_path, self._content(request))
        envelope = read_envelope(self._calls, answer, submitting=True)
        if envelope.code != OK:
            raise error_of(self._calls, envelope, submitting=True)
        task_id = task_id_of(envelope.data)
        if task_id is None:
            raise self._calls.unknown("its answer names no task.")
        return Accepted(task_id)

    async def query(self, provider_task_id: str) -> Running | Succeeded | Failed | Strange:
        answer = await self._calls.query(self.query_path, {"taskId": provider_task_id})
        envelope = read_envelope(self._calls, answer, submitting=False)
        if envelope.code == GENERATION_FAILED:
            return Failed(str(GENERATION_FAILED), self._calls.words(envelope.message) or "The generation failed.")
        if envelope.code != OK:
            raise error_of(self._calls, envelope, submitting=False)
        record = envelope.data
        # An answer about another task must not end this one.
        if not isinstance(record, dict) or task_id_of(record) not in {None, provider_task_id}:
            return Strange("no record of this task")
        return self._state(record)

    def callback_task_id(self, body: Any) -> str | None:
        return callback_task_id(body)

    def verify_callback(self, headers: Mapping[str, str], provider_task_id: str, now: datetime | None = None) -> bool:
        key = self._webhook_key().strip()
        return not key or is_signed(headers, provider_task_id, key, now or self._calls.clock.now())

    @abstractmethod
    def _content(self, request: GenerationRequest) -> dict[str, Any]:
        """Return the body of a submit."""

    @abstractmethod
    def _state(self, record: dict[str, Any]) -> Running | Succeeded | Failed | Strange:
        """Return the state of the task in a record."""

    def _addresses(self, request: GenerationRequest) -> list[str]:
        addresses = [one.url for one in request.references if one.url]
        if len(addresses) != len(request.references):
            raise self._calls.refused("REFERENCE_MISSING", "A reference image has no URL.")
        return addresses


@dataclass(frozen=True, slots=True)
class Envelope:
    """An answer in KIE's own format, whether success or error."""

    code: int
    message: object
    data: Any
    retry_after: float | None


def read_envelope(calls: ProviderCalls, answer: Response, *, submitting: bool) -> Envelope:
    """Return the answer's envelope; raise a ProviderError if it is not in KIE's format."""
    content = calls.content(answer)
    code = _code(content)
    if content is None or code is None:
        raise calls.unrecognized(answer, submitting=submitting)
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
        # A query contains nothing but the task's id.
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
    """Return the task's id, in either spelling."""
    found = (data.get("taskId") or data.get("task_id")) if isinstance(data, dict) else None
    return found if isinstance(found, str) and found.isprintable() and 0 < len(found) <= LONGEST_TASK_ID else None


def media_urls(found: Any) -> tuple[MediaUrl, ...] | None:
    """Return the URLs of results; None if it is not a list of URLs."""
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


def callback_task_id(body: Any) -> str | None:
    """Return the id of the task that a callback is about."""
    return task_id_of(body.get("data")) or task_id_of(body) if isinstance(body, dict) else None


def is_signed(headers: Mapping[str, str], task_id: str, key: str, now: datetime) -> bool:
    """Return whether this task's id was signed with the key within five minutes of now."""
    given = {name.lower(): value for name, value in headers.items()}
    timestamp, signature = given.get("x-webhook-timestamp", ""), given.get("x-webhook-signature", "")
    if not (timestamp.isascii() and timestamp.isdigit() and len(timestamp) <= _LONGEST_TIMESTAMP):
        return False
    digest = hmac.new(key.encode(), f"{task_id}.{timestamp}".encode(), hashlib.sha256).digest()
    genuine = hmac.compare_digest(base64.b64encode(digest), signature.encode())
    moment = int(timestamp) if int(timestamp) < _MILLISECONDS_FROM else int(timestamp) / 1000
    return genuine and abs(moment - now.timestamp()) <= TOLERANCE_SECONDS


def _bearer(key: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {key}"}


class Kie(KieAccount):
    """Images and clips of many models, by one API."""

    name = "kie"
    create_path = "/api/v1/jobs/createTask"
    query_path = "/api/v1/jobs/recordInfo"
    reference_field = "image_urls"

    def _content(self, request: GenerationRequest) -> dict[str, Any]:
        given: dict[str, Any] = {**request.parameters, "prompt": request.prompt}
        if request.references:
            given[request.reference_field or self.reference_field] = self._addresses(request)
        content: dict[str, Any] = {"model": request.model, "input": given}
        return content | ({"callBackUrl": request.callback_url} if request.callback_url else {})

    def _state(self, record: dict[str, Any]) -> Running | Succeeded | Failed | Strange:
        word = self._calls.code(record.get("state"), "no state")
        match word:
            case "success":
                files = _results(record.get("resultJson"))
                return Strange("success without results") if files is None else Succeeded(files, URL_SECONDS)
            case "fail":
                message = self._calls.words(record.get("failMsg")) or "The generation failed."
                return Failed(self._calls.code(record.get("failCode"), "FAILED"), message)
            case _ if word in RUNNING_WORDS:
                return Running(_progress(record.get("progress")), word)
        return Strange(word)


def _results(encoded: object) -> tuple[MediaUrl, ...] | None:
    """Return the results, which the record holds as JSON inside a string."""
    try:
        result = orjson.loads(encoded) if isinstance(encoded, str) else encoded
    except orjson.JSONDecodeError:
        return None
    return media_urls(result.get("resultUrls")) if isinstance(result, dict) else None


def _progress(value: object) -> float | None:
    """Return the progress from 0 to 1. KIE does not document the scale; whole numbers are taken as per cent."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    part = value / 100 if isinstance(value, int) or value > 1 else value
    return min(max(float(part), 0.0), 1.0)


class KieVeo(KieAccount):
    """Clips by Veo through KIE."""

    name = "kie_veo"
    create_path = "/api/v1/veo/generate"
    query_path = "/api/v1/veo/record-info"
    reference_field = "imageUrls"

    def _content(self, request: GenerationRequest) -> dict[str, Any]:
        content = {name: value for name, value in request.parameters.items() if name not in _RESERVED}
        content |= {"model": request.model, "prompt": request.prompt}
        if request.references:
            content[request.reference_field or self.reference_field] = self._addresses(request)
            frames = len(request.references) <= FRAMES_MOST
            content.setdefault("generationType", _FRAMES if frames else _REFERENCES)
        return content | ({"callBackUrl": request.callback_url} if request.callback_url else {})

    def _state(self, record: dict[str, Any]) -> Running | Succeeded | Failed | Strange:
        flag = record.get("successFlag")
        # In Python True equals 1, but it is not one of KIE's flags.
        if isinstance(flag, bool):
            return Strange("successFlag is not a number")
        match flag:
            case 0:
                return Running(None, "running")
            case 1:
                response = record.get("response")
                files = media_urls(response.get("resultUrls")) if isinstance(response, dict) else None
                return Strange("success without results") if files is None else Succeeded(files, URL_SECONDS)
            case 2 | 3:
                message = self._calls.words(record.get("errorMessage")) or "The generation failed."
                return Failed(self._calls.code(record.get("errorCode"), "FAILED"), message)
        return Strange(f"successFlag {self._calls.code(flag, 'missing')}")
