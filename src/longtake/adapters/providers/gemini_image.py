"""Gemini's images: one call, answered with the bytes themselves."""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from longtake.adapters.providers.gemini_account import GeminiAccount, dicts
from longtake.adapters.providers.provider import Delivered, GenerationRequest, MediaBytes, Running
from longtake.errors import ProviderError, ProviderRefused

if TYPE_CHECKING:
    from longtake.adapters.net import HttpClient
    from longtake.clock import Clock

#: Answers take 5 to 25 s.
ANSWER_SECONDS = 90.0
ANSWER_BYTES = 100_000_000
#: Parameters that go into imageConfig; all others go into generationConfig.
IMAGE_PARAMETERS = frozenset(("aspectRatio", "imageSize"))
_FINISHED = "STOP"


class GeminiImage(GeminiAccount):
    """Images by generateContent. There is no task to query; a request whose answer was lost is sent again."""

    name = "gemini_image"
    submits = "repeatable"
    answers = "at once"

    def __init__(self, client: HttpClient, base_url: str, key: Callable[[], str], clock: Clock | None = None) -> None:
        super().__init__(client, base_url, key, clock)
        self._calls.submit_seconds, self._calls.submit_bytes = ANSWER_SECONDS, ANSWER_BYTES

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
