"""Whatever JSON comes in, the sandbox answers as a provider does: it refuses, and does not break."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.sandbox.wire import ask

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.sandbox_process import SandboxProcess

ODD: tuple[Any, ...] = (None, 1, "x", [], {}, [1], {"a": 1}, True, 1.5)
BODIES = {
    "kie/api/v1/jobs/createTask": {
        "model": "google/nano-banana-edit", "callBackUrl": "x",
        "input": {"prompt": "a", "image_urls": ["x"], "image_size": "1:1", "output_format": "png"},
    },
    "kie/api/v1/veo/generate": {"prompt": "x", "model": "veo3", "imageUrls": ["x"], "duration": 4, "callBackUrl": "x"},
    "kie/api/v1/common/download-url": {"url": "x"},
    "gemini/v1beta/models/gemini-3-pro-image:generateContent": {
        "contents": [{"parts": [{"text": "x"}, {"inlineData": {"data": "x"}}]}],
        "generationConfig": {"responseModalities": ["IMAGE"], "imageConfig": {"aspectRatio": "1:1"}},
    },
    "gemini/v1beta/models/veo-3.1-generate-preview:predictLongRunning": {
        "instances": [{"prompt": "x", "image": {"inlineData": {"data": "x"}}}], "parameters": {"durationSeconds": 4},
    },
}  # fmt: skip


def variations(node: Any) -> Iterator[Any]:
    """Replace each part of a body, small or large, by each odd value."""
    yield from ODD
    if isinstance(node, dict):
        for name, value in node.items():
            yield from ({**node, name: odd} for odd in variations(value))
    if isinstance(node, list):
        for number, value in enumerate(node):
            yield from ([*node[:number], odd, *node[number + 1 :]] for odd in variations(value))


@pytest.mark.parametrize("path", BODIES)
def test_no_body_breaks_a_route(sandbox: SandboxProcess, path: str) -> None:
    sandbox.settings(seconds={"image": 0, "video": 0}, instant=True)
    headers = {"Authorization": f"Bearer {sandbox.key}", "x-goog-api-key": sandbox.key}
    broken = [
        body for body in variations(BODIES[path]) if ask("POST", f"{sandbox.url}/{path}", body, headers).status >= 500
    ]
    assert broken == []
    assert {call["status"] for call in sandbox.calls(route="submit")} <= {200, 400}
