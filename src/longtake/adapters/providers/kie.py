"""KIE's job API: createTask and recordInfo, for all models but Veo."""

from __future__ import annotations

from typing import Any

import orjson

from longtake.adapters.providers.kie_account import URL_SECONDS, KieAccount, media_urls
from longtake.adapters.providers.provider import Failed, GenerationRequest, MediaUrl, Running, Strange, Succeeded

REFERENCE_FIELD = "image_urls"
RUNNING_WORDS = frozenset(("waiting", "queuing", "generating"))


class Kie(KieAccount):
    """Images and clips of many models, by one API."""

    name = "kie"
    create_path = "/api/v1/jobs/createTask"
    query_path = "/api/v1/jobs/recordInfo"

    def _content(self, request: GenerationRequest) -> dict[str, Any]:
        given: dict[str, Any] = {**request.parameters, "prompt": request.prompt}
        if request.references:
            given[request.reference_field or REFERENCE_FIELD] = self._addresses(request)
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
