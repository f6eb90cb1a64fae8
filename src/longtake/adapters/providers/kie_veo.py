"""KIE's Veo API: a flat request body, and a flag instead of a state."""

from __future__ import annotations

from typing import Any

from longtake.adapters.providers.kie_account import URL_SECONDS, KieAccount, media_urls
from longtake.adapters.providers.provider import Failed, GenerationRequest, Running, Strange, Succeeded

REFERENCE_FIELD = "imageUrls"
#: One or two images are the first and the last frame; three or more show subjects.
FRAMES_MOST = 2
_FRAMES = "FIRST_AND_LAST_FRAMES_2_VIDEO"
_REFERENCES = "REFERENCE_2_VIDEO"
#: The body is flat, so parameters must not replace these fields.
_RESERVED = frozenset(("model", "prompt", "callBackUrl"))


class KieVeo(KieAccount):
    """Clips by Veo through KIE."""

    name = "kie_veo"
    create_path = "/api/v1/veo/generate"
    query_path = "/api/v1/veo/record-info"

    def _content(self, request: GenerationRequest) -> dict[str, Any]:
        content = {name: value for name, value in request.parameters.items() if name not in _RESERVED}
        content |= {"model": request.model, "prompt": request.prompt}
        if request.references:
            content[request.reference_field or REFERENCE_FIELD] = self._addresses(request)
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
