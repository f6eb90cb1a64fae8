"""Gemini's two APIs: images, answered with the bytes themselves, and clips, long-running operations."""

from __future__ import annotations

import base64
import re
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING, Any
from urllib.parse import quote
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from longtake.adapters.net import same_origin
from longtake.adapters.net.responses import LONGEST_RETRY_AFTER
from longtake.adapters.providers.calls import ProviderCalls
from longtake.adapters.providers.errors import ProviderError, ProviderQuotaSpent, ProviderRefused, ProviderUnauthorized
from longtake.adapters.providers.provider import (
    Accepted,
    Delivered,
    Failed,
    GenerationRequest,
    MediaBytes,
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

OK = 200
KEY_SETTING = "gemini_api_key"
_BAD_KEY = "API_KEY_INVALID"
_LATE = "DEADLINE_EXCEEDED"
_DURATION = re.compile(r"([0-9]{1,18}(?:\.[0-9]{1,9})?)s")
_PACIFIC = "America/Los_Angeles"
#: Answers with an image take 5 to 25 s.
IMAGE_SECONDS = 90.0
IMAGE_BYTES = 100_000_000
#: Parameters that go into imageConfig; all others go into generationConfig.
IMAGE_PARAMETERS = frozenset(("aspectRatio", "imageSize"))
_FINISHED = "STOP"
#: A clip is kept for two days.
URL_SECONDS = 2 * 24 * 3600.0
#: One or two images are the first and the last frame; three or more show subjects.
FRAMES_MOST = 2
#: The operation's name becomes part of an address.
_NAME = re.compile(r"(?=.{1,300}\Z)[A-Za-z0-9_-][A-Za-z0-9._-]*(?:/[A-Za-z0-9_-][A-Za-z0-9._-]*)+")


class GeminiAccount(Provider):
    """Base of Gemini's providers: reads answers and errors. A subclass builds requests and reads results."""

    account = "gemini"
    takes_references = "bytes"
    # Gemini's limits depend on the account and are not published. Start low; `longtake lanes set` changes them.
    submit_lane = Lane("gemini.submit", rate=(60, 60.0), burst=5)
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


def duration_seconds(value: object) -> float | None:
    """Return the seconds of a duration such as `38s` or `38.5s`."""
    found = _DURATION.fullmatch(value.strip()) if isinstance(value, str) else None
    return min(float(found[1]), LONGEST_RETRY_AFTER) if found else None


def seconds_to_pacific_midnight(now: datetime) -> float:
    """Return the seconds until midnight on the American west coast, when Google renews quotas."""
    try:
        zone: ZoneInfo | timezone = ZoneInfo(_PACIFIC)
    except ZoneInfoNotFoundError:
        # Without time zone data winter time is used, which is at most an hour late.
        zone = timezone(timedelta(hours=-8))
    tomorrow = now.astimezone(zone).date() + timedelta(days=1)
    midnight = datetime(tomorrow.year, tomorrow.month, tomorrow.day, tzinfo=zone)
    return (midnight - now).total_seconds()


class GeminiImage(GeminiAccount):
    """Images by generateContent. There is no task to query; a request whose answer was lost is sent again."""

    name = "gemini_image"
    submits = "repeatable"
    answers = "at once"

    def __init__(self, client: HttpClient, base_url: str, key: Callable[[], str], clock: Clock | None = None) -> None:
        super().__init__(client, base_url, key, clock)
        self._calls.submit_seconds, self._calls.submit_bytes = IMAGE_SECONDS, IMAGE_BYTES

    async def submit(self, request: GenerationRequest) -> Delivered:
        path = f"/models/{quote(request.model, safe='')}:generateContent"
        answer = await self._calls.submit(path, self._content(request))
        found = self._read(answer, submitting=True)
        try:
            files = tuple(_files(found))
        except ValueError:
            raise self._calls.unknown("the image in its answer is damaged.") from None
        if not files:
            raise self._blocked(found)
        return Delivered(files)

    async def query(self, provider_task_id: str) -> Running:  # noqa: ARG002 - there are no tasks
        raise self._calls.task_not_found()

    def _content(self, request: GenerationRequest) -> dict[str, Any]:
        images = self._images(request)
        parts = [{"inlineData": {"mimeType": kind, "data": data}} for kind, data in images]
        image = {name: value for name, value in request.parameters.items() if name in IMAGE_PARAMETERS}
        config = {name: value for name, value in request.parameters.items() if name not in IMAGE_PARAMETERS}
        config |= {"responseModalities": ["TEXT", "IMAGE"]} | ({"imageConfig": image} if image else {})
        return {"contents": [{"role": "user", "parts": [{"text": request.prompt}, *parts]}], "generationConfig": config}

    def _blocked(self, content: dict[str, Any]) -> ProviderError:
        """Return the error for an answer without an image. A refusal is final, so it is not repeated."""
        feedback, candidates = content.get("promptFeedback"), dicts(content.get("candidates"))
        reason = feedback.get("blockReason") if isinstance(feedback, dict) else None
        if reason is None and not candidates:
            return self._calls.unknown("its answer has neither an image nor a reason.")
        reasons = [reason, *(one.get("finishReason") for one in candidates if one.get("finishReason") != _FINISHED)]
        code = self._calls.code(next(filter(None, reasons), None), "NO_IMAGE")
        texts = [one.get("finishMessage") for one in candidates] + [part.get("text") for part in _parts(content)]
        said = self._calls.words(next(filter(None, texts), ""))
        message = f"{self.name} made no image ({code}). {said}".strip()
        return ProviderRefused(message, fail_code=code, provider=self.name)


def _files(content: dict[str, Any]) -> Iterator[MediaBytes]:
    """Yield every image in every part of every candidate. Texts may come first."""
    for part in _parts(content):
        inline = part.get("inlineData") or part.get("inline_data")
        # Thoughts are drafts, not results.
        if isinstance(inline, dict) and not part.get("thought"):
            kind = inline.get("mimeType") or inline.get("mime_type") or "application/octet-stream"
            yield MediaBytes(str(kind)[:100], base64.b64decode(str(inline.get("data", "")), validate=True))


def _parts(content: dict[str, Any]) -> Iterator[dict[str, Any]]:
    for candidate in dicts(content.get("candidates")):
        held = candidate.get("content")
        if isinstance(held, dict):
            yield from dicts(held.get("parts"))


class GeminiVeo(GeminiAccount):
    """Clips by predictLongRunning."""

    name = "gemini_veo"
    submits = "once"

    def download_headers(self, url: str) -> dict[str, str]:
        """Return the key for files under Gemini's base URL only, because a result's URL may point anywhere."""
        base = self._calls.base_url
        try:
            return self._calls.key_headers() if same_origin(url, base) and url.startswith(f"{base}/") else {}
        except ProviderUnauthorized:
            return {}

    async def submit(self, request: GenerationRequest) -> Accepted:
        path = f"/models/{quote(request.model, safe='')}:predictLongRunning"
        answer = await self._calls.submit(path, self._content(request))
        name = self._read(answer, submitting=True).get("name")
        if not isinstance(name, str) or not _NAME.fullmatch(name):
            raise self._calls.unknown("its answer names no operation.")
        return Accepted(name)

    async def query(self, provider_task_id: str) -> Running | Succeeded | Failed | Strange:
        if not _NAME.fullmatch(provider_task_id):
            raise self._calls.task_not_found()
        answer = await self._calls.query(f"/{provider_task_id}")
        operation = self._read(answer, submitting=False)
        # An answer about another operation must not end this one.
        if operation.get("name") != provider_task_id:
            return Strange("no record of this operation")
        match operation.get("done", False):
            case False:
                return Running(None, "running")
            case True:
                return self._end(operation)
        return Strange("done is neither true nor false")

    def _content(self, request: GenerationRequest) -> dict[str, Any]:
        instance: dict[str, Any] = {"prompt": request.prompt}
        given = [{"bytesBase64Encoded": data, "mimeType": kind} for kind, data in self._images(request)]
        if len(given) > FRAMES_MOST:
            instance["referenceImages"] = [{"image": image, "referenceType": "asset"} for image in given]
        else:
            instance |= dict(zip(("image", "lastFrame"), given, strict=False))
        return {"instances": [instance], "parameters": dict(request.parameters)}

    def _end(self, operation: dict[str, Any]) -> Succeeded | Failed | Strange:
        error = operation.get("error")
        if isinstance(error, dict):
            message = self._calls.words(error.get("message")) or "The generation failed."
            return Failed(self._calls.code(error.get("status") or error.get("code"), "FAILED"), message)
        response = operation.get("response")
        made = response.get("generateVideoResponse") if isinstance(response, dict) else None
        if not isinstance(made, dict):
            return Strange("done without a response")
        samples = made.get("generatedSamples") or []
        urls = [_uri(sample) for sample in samples] if isinstance(samples, list) else [None]
        files = tuple(MediaUrl(url) for url in urls if url is not None)
        if len(files) != len(urls):
            return Strange("a clip without an address")
        return Succeeded(files, URL_SECONDS) if files else self._filtered(made)

    def _filtered(self, made: dict[str, Any]) -> Failed:
        reasons = made.get("raiMediaFilteredReasons")
        said = [self._calls.words(one) for one in reasons] if isinstance(reasons, list) else []
        return Failed("FILTERED", " ".join(filter(None, said)) or "All clips were filtered out, without a reason.")


def _uri(sample: object) -> str | None:
    video = sample.get("video") if isinstance(sample, dict) else None
    uri = video.get("uri") if isinstance(video, dict) else None
    return uri if isinstance(uri, str) and uri.startswith(("https://", "http://")) else None
