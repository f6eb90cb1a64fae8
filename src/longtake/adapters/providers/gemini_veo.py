"""Gemini's clips: a long-running operation, and a file that needs the key to download."""

from __future__ import annotations

import re
from typing import Any
from urllib.parse import quote

from longtake.adapters.net import same_origin
from longtake.adapters.providers.gemini_account import GeminiAccount
from longtake.adapters.providers.provider import (
    Accepted,
    Failed,
    GenerationRequest,
    MediaUrl,
    Running,
    Strange,
    Succeeded,
)
from longtake.errors import ProviderUnauthorized

#: A clip is kept for two days.
URL_SECONDS = 2 * 24 * 3600.0
#: One or two images are the first and the last frame; three or more show subjects.
FRAMES_MOST = 2
#: The operation's name becomes part of an address.
_NAME = re.compile(r"(?=.{1,300}\Z)[A-Za-z0-9_-][A-Za-z0-9._-]*(?:/[A-Za-z0-9_-][A-Za-z0-9._-]*)+")


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
